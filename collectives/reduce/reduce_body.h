// SPDX-License-Identifier: Apache-2.0
// The loops. Included by one .cc per level, which defines ONRT_REDUCE_FUNCTION; everything else
// here has internal linkage. Works on tiles that stay in the nearest cache: the first input is
// widened into the tile, the others are folded in, the result goes to every output. Types that
// accumulate as they are stored need no tile: their elements stay in registers.
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "collectives/reduce/level.h"
#include "runtime/base/small_float.h"

namespace onrt::cc {
namespace {

// ---- element types: storage, accumulator, and the ways between ----------------------------------

template <class T>
struct Native {
  using Storage = T;
  using Accumulator = T;
  static constexpr bool kNarrow = false;
};

template <class Format, class Bits>
struct Narrow {
  using Storage = Bits;
  using Accumulator = float;
  static constexpr bool kNarrow = true;
  static float widen(Bits bits) { return Format::to_f32(bits); }
  static Bits round(float value) { return Format::from_f32(value); }
};

struct Bf16Type : Narrow<Bf16, uint16_t> {
  static float widen(uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  // The value is no NaN of another kind than the canonical one: see canonical().
  static uint16_t round(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return static_cast<uint16_t>(value != value ? 0x7fc0u : rounded);
  }
};

#if defined(__F16C__)
struct F16Type : Narrow<F16, uint16_t> {
  static float widen(uint16_t bits) { return _cvtsh_ss(bits); }
  static uint16_t round(float value) {
    return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
  }
};
#else
using F16Type = Narrow<F16, uint16_t>;
#endif

// All 256 values of an 8-bit type.
template <class Format>
struct Table {
  std::array<float, 256> values{};
  constexpr Table() {
    for (uint32_t i = 0; i < 256; ++i) {
      values[i] = Format::to_f32(static_cast<uint8_t>(i));
    }
  }
};
template <class Format>
struct Float8Type : Narrow<Format, uint8_t> {
  static float widen(uint8_t bits) {
    static constexpr Table<Format> kTable;
    return kTable.values[bits];
  }
};

// ---- operations ---------------------------------------------------------------------------------

template <ReduceOp kOp, class A>
[[gnu::always_inline]] inline A fold(A a, A b) {
  if constexpr (kOp == ReduceOp::kMin) {
    if constexpr (std::is_floating_point_v<A>) {
      return a < b || a != a ? a : b;
    } else {
      return a < b ? a : b;
    }
  } else if constexpr (kOp == ReduceOp::kMax) {
    if constexpr (std::is_floating_point_v<A>) {
      return a > b || a != a ? a : b;
    } else {
      return a > b ? a : b;
    }
  } else if constexpr (std::is_floating_point_v<A>) {
    return kOp == ReduceOp::kProd ? a * b : a + b;
  } else {
    // Unsigned and at least 32 bits wide, so that nothing overflows.
    using U = std::common_type_t<std::make_unsigned_t<A>, uint32_t>;
    const U x = static_cast<U>(a);
    const U y = static_cast<U>(b);
    return static_cast<A>(kOp == ReduceOp::kProd ? x * y : x + y);
  }
}

// Which of two NaNs an addition returns depends on the order the compiler gives its operands in.
template <class A>
[[gnu::always_inline]] inline A canonical(A value) {
  if constexpr (std::is_same_v<A, float>) {
    return value != value ? std::bit_cast<float>(0x7fc00000u) : value;
  } else if constexpr (std::is_same_v<A, double>) {
    return value != value ? std::bit_cast<double>(0x7ff8000000000000ull) : value;
  } else {
    return value;
  }
}

template <ReduceOp kOp, class A>
[[gnu::always_inline]] inline A finish(A value, A divisor) {
  if constexpr (kOp == ReduceOp::kAvg) {
    return canonical(static_cast<A>(value / divisor));
  } else {
    return canonical(value);
  }
}

// ---- native types: two inputs, and several ------------------------------------------------------

template <class T>
T* at(const ReduceOutput& output, size_t first) {
  return static_cast<T*>(output.data) + first;
}
template <class T>
const T* at(const ReduceInput& input, size_t first) {
  return static_cast<const T*>(input.data) + first;
}

constexpr size_t kTile = 1024;  // elements

#if defined(__AVX__)
// Whole vectors around the caches. `out` is aligned to a vector.
[[maybe_unused]] inline void stream_floats(float* out, const float* from, size_t n) {
  for (size_t i = 0; i < n; i += 8) {
    _mm256_stream_ps(out + i, _mm256_loadu_ps(from + i));
  }
}
#endif

// A finished tile to one more output.
template <class T>
void store_tile(const ReduceOutput& output, size_t first, const T* tile, size_t n) {
  T* const out = at<T>(output, first);
#if defined(__AVX__)
  if constexpr (std::is_same_v<T, float>) {
    if (output.stream && n % 8 == 0 && reinterpret_cast<uintptr_t>(out) % 32 == 0) {
      stream_floats(out, tile, n);
      return;
    }
  }
#endif
  std::memcpy(out, tile, n * sizeof(T));
}

template <class T, ReduceOp kOp>
[[gnu::always_inline]] inline void pair(const T* a, const T* b, T* out, size_t n, bool last,
                                        T divisor) {
  if (last) {
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) {
      out[i] = finish<kOp, T>(fold<kOp, T>(a[i], b[i]), divisor);
    }
  } else {
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) {
      out[i] = fold<kOp, T>(a[i], b[i]);
    }
  }
}

// Several outputs are written one after another from a tile: stores to two buffers whose addresses
// agree in their low 12 bits, between loads from them, wait for each other (on Zen 3 by 4x).
template <class T, ReduceOp kOp>
void reduce_native(const ReduceCall& call) {
  const size_t inputs = call.inputs.size();
  const T divisor = static_cast<T>(call.reduction.divisor);
  bool kept = false;  // some output gets the accumulator
  bool stream = false;
  for (const ReduceOutput& output : call.outputs) {
    kept = kept || output.accumulator;
    stream = stream || output.stream;
  }
  if (inputs == 2 && call.outputs.size() == 1 && !kept && !stream) {
    pair<T, kOp>(at<T>(call.inputs[0], 0), at<T>(call.inputs[1], 0), at<T>(call.outputs[0], 0),
                 call.count, true, divisor);
    return;
  }
  alignas(64) T tile[kTile];
  for (size_t first = 0; first < call.count; first += kTile) {
    const size_t n = call.count - first < kTile ? call.count - first : kTile;
    bool finished = inputs == 2 && !kept;
    if (inputs == 1) {
      std::memcpy(tile, at<T>(call.inputs[0], first), n * sizeof(T));
    } else {
      pair<T, kOp>(at<T>(call.inputs[0], first), at<T>(call.inputs[1], first), tile, n, finished,
                   divisor);
    }
    size_t i = 2;
    for (; i + 1 < inputs; i += 2) {
      const T* a = at<T>(call.inputs[i], first);
      const T* b = at<T>(call.inputs[i + 1], first);
#pragma GCC ivdep
      for (size_t k = 0; k < n; ++k) {
        tile[k] = fold<kOp, T>(fold<kOp, T>(tile[k], a[k]), b[k]);
      }
    }
    if (i < inputs) {
      finished = !kept;
      pair<T, kOp>(tile, at<T>(call.inputs[i], first), tile, n, finished, divisor);
    }
    for (const ReduceOutput& output : call.outputs) {
      if (output.accumulator) {
        std::memcpy(at<T>(output, first), tile, n * sizeof(T));
      }
    }
    if (!finished) {
#pragma GCC ivdep
      for (size_t k = 0; k < n; ++k) {
        tile[k] = finish<kOp, T>(tile[k], divisor);
      }
    }
    for (const ReduceOutput& output : call.outputs) {
      if (!output.accumulator) {
        store_tile<T>(output, first, tile, n);
      }
    }
  }
#if defined(__SSE2__)
  if (stream) {
    _mm_sfence();
  }
#endif
}

// ---- types that accumulate in f32 ---------------------------------------------------------------

#if defined(__AVX2__)
// f16 through the vector conversion; returns how many it has done.
template <class Type>
[[gnu::always_inline]] inline size_t widen_vectors([[maybe_unused]] const void* from,
                                                   [[maybe_unused]] float* to,
                                                   [[maybe_unused]] size_t n) {
  size_t i = 0;
  if constexpr (std::is_same_v<Type, F16Type>) {
    for (; i + 8 <= n; i += 8) {
      const auto* x = reinterpret_cast<const __m128i*>(static_cast<const uint16_t*>(from) + i);
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(x)));
    }
  }
  return i;
}
template <class Type>
[[gnu::always_inline]] inline size_t round_vectors([[maybe_unused]] const float* from,
                                                   [[maybe_unused]] void* to,
                                                   [[maybe_unused]] size_t n) {
  size_t i = 0;
  if constexpr (std::is_same_v<Type, F16Type>) {
    for (; i + 8 <= n; i += 8) {
      auto* x = reinterpret_cast<__m128i*>(static_cast<uint16_t*>(to) + i);
      _mm_storeu_si128(x, _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    }
  }
  return i;
}
#else
template <class Type>
size_t widen_vectors(const void*, float*, size_t) {
  return 0;
}
template <class Type>
size_t round_vectors(const float*, void*, size_t) {
  return 0;
}
#endif

template <class Type>
void widen(const ReduceInput& input, size_t first, float* to, size_t n) {
  if (input.accumulator) {
    std::memcpy(to, at<float>(input, first), n * sizeof(float));
    return;
  }
  const auto* x = at<typename Type::Storage>(input, first);
  size_t i = widen_vectors<Type>(x, to, n);
#pragma GCC ivdep
  for (; i < n; ++i) {
    to[i] = Type::widen(x[i]);
  }
}

template <class Type, ReduceOp kOp>
void fold_in(const ReduceInput& input, size_t first, float* tile, float* spare, size_t n) {
  if (!input.accumulator && std::is_same_v<Type, Bf16Type>) {
    const auto* x = at<typename Type::Storage>(input, first);
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) {
      tile[i] = fold<kOp, float>(tile[i], Type::widen(x[i]));
    }
    return;
  }
  const float* x = at<float>(input, first);
  if (!input.accumulator) {
    widen<Type>(input, first, spare, n);
    x = spare;
  }
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) {
    tile[i] = fold<kOp, float>(tile[i], x[i]);
  }
}

template <class Type>
void round_tile(const float* tile, typename Type::Storage* to, size_t n) {
  size_t i = round_vectors<Type>(tile, to, n);
#pragma GCC ivdep
  for (; i < n; ++i) {
    to[i] = Type::round(tile[i]);
  }
}

// Sums and products of bf16 stay in registers from the first input to the last.
template <ReduceOp kOp>
inline constexpr bool kFoldsBf16 =
    kOp == ReduceOp::kSum || kOp == ReduceOp::kAvg || kOp == ReduceOp::kProd;

template <ReduceOp kOp>
[[gnu::always_inline]] inline uint16_t fold_one_bf16(std::span<const ReduceInput> inputs, size_t i,
                                                     float divisor) {
  float sum = Bf16Type::widen(*at<uint16_t>(inputs[0], i));
  for (const ReduceInput& input : inputs.subspan(1)) {
    sum = fold<kOp, float>(sum, Bf16Type::widen(*at<uint16_t>(input, i)));
  }
  return Bf16Type::round(kOp == ReduceOp::kAvg ? sum / divisor : sum);
}

#if defined(__AVX2__)
// Sixteen elements, those at even places apart from those at odd ones: each is then the upper half
// of a float without any shuffling.
struct Bf16Lanes {
  __m256 even, odd;
};
[[gnu::always_inline]] inline Bf16Lanes load_bf16(const uint16_t* from) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(words, 16)),
          _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-0x10000)))};
}

// The upper halves hold Bf16Type::round() of numbers that are no NaN.
[[gnu::always_inline]] inline __m256i round_bf16(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
}

template <ReduceOp kOp>
[[gnu::always_inline]] inline __m256 fold_lanes(__m256 a, __m256 b) {
  return kOp == ReduceOp::kProd ? _mm256_mul_ps(a, b) : _mm256_add_ps(a, b);
}

// Returns how many elements from `first` on it has done.
template <ReduceOp kOp>
size_t fold_bf16_vectors(std::span<const ReduceInput> inputs, size_t first, uint16_t* out, size_t n,
                         float divisor) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    Bf16Lanes sum = load_bf16(at<uint16_t>(inputs[0], first + i));
    for (size_t k = 1; k < inputs.size(); ++k) {
      const Bf16Lanes more = load_bf16(at<uint16_t>(inputs[k], first + i));
      sum.even = fold_lanes<kOp>(sum.even, more.even);
      sum.odd = fold_lanes<kOp>(sum.odd, more.odd);
    }
    if constexpr (kOp == ReduceOp::kAvg) {
      sum.even = _mm256_div_ps(sum.even, _mm256_set1_ps(divisor));
      sum.odd = _mm256_div_ps(sum.odd, _mm256_set1_ps(divisor));
    }
    if (_mm256_movemask_ps(_mm256_cmp_ps(sum.even, sum.odd, _CMP_UNORD_Q)) != 0) {
      // Some element is a NaN. `out` may be an input: read all before the first is written.
      uint16_t values[16];
      for (size_t k = 0; k < 16; ++k) {
        values[k] = fold_one_bf16<kOp>(inputs, first + i + k, divisor);
      }
      std::memcpy(out + i, values, sizeof(values));
      continue;
    }
    const __m256i even = _mm256_srli_epi32(round_bf16(sum.even), 16);
    const __m256i both = _mm256_blend_epi16(even, round_bf16(sum.odd), 0xaa);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), both);
  }
  return i;
}
#else
template <ReduceOp kOp>
size_t fold_bf16_vectors(std::span<const ReduceInput>, size_t, uint16_t*, size_t, float) {
  return 0;
}
#endif

template <ReduceOp kOp>
void fold_bf16(std::span<const ReduceInput> inputs, size_t first, uint16_t* out, size_t n,
               float divisor) {
  size_t i = fold_bf16_vectors<kOp>(inputs, first, out, n, divisor);
  if (inputs.size() == 2) {  // where there are no vectors the compiler finds them
    const uint16_t* const a = at<uint16_t>(inputs[0], first);
    const uint16_t* const b = at<uint16_t>(inputs[1], first);
#pragma GCC ivdep
    for (; i < n; ++i) {
      const float sum = fold<kOp, float>(Bf16Type::widen(a[i]), Bf16Type::widen(b[i]));
      out[i] = Bf16Type::round(kOp == ReduceOp::kAvg ? sum / divisor : sum);
    }
  }
  for (; i < n; ++i) {
    out[i] = fold_one_bf16<kOp>(inputs, first + i, divisor);
  }
}

#if defined(__AVX2__)
inline constexpr size_t kMostFoldedBf16 = SIZE_MAX;
#else
inline constexpr size_t kMostFoldedBf16 =
    2;  // more go through tiles, which the compiler vectorises
#endif

template <class Type, ReduceOp kOp>
void reduce_narrow(const ReduceCall& call) {
  using Storage = typename Type::Storage;
  const float divisor = static_cast<float>(call.reduction.divisor);
  bool plain = call.inputs.size() >= 2 && call.inputs.size() <= kMostFoldedBf16;
  for (const ReduceInput& input : call.inputs) {
    plain = plain && !input.accumulator;
  }
  for (const ReduceOutput& output : call.outputs) {
    plain = plain && !output.accumulator;
  }
  if constexpr (std::is_same_v<Type, Bf16Type> && kFoldsBf16<kOp>) {
    if (plain && call.outputs.size() == 1) {
      fold_bf16<kOp>(call.inputs, 0, at<Storage>(call.outputs[0], 0), call.count, divisor);
      return;
    }
  }
  alignas(64) float tile[kTile];
  alignas(64) float spare[kTile];
  alignas(64) Storage rounded[kTile];
  for (size_t first = 0; first < call.count; first += kTile) {
    const size_t n = call.count - first < kTile ? call.count - first : kTile;
    if constexpr (std::is_same_v<Type, Bf16Type> && kFoldsBf16<kOp>) {
      if (plain) {
        fold_bf16<kOp>(call.inputs, first, rounded, n, divisor);
        for (const ReduceOutput& output : call.outputs) {
          std::memcpy(at<Storage>(output, first), rounded, n * sizeof(Storage));
        }
        continue;
      }
    }
    widen<Type>(call.inputs[0], first, tile, n);
    for (const ReduceInput& input : call.inputs.subspan(1)) {
      fold_in<Type, kOp>(input, first, tile, spare, n);
    }
    bool finished = false;
    for (const ReduceOutput& output : call.outputs) {
      if (output.accumulator) {
        std::memcpy(at<float>(output, first), tile, n * sizeof(float));
      } else {
        finished = true;
      }
    }
    if (!finished) {
      continue;
    }
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) {
      spare[i] = finish<kOp, float>(tile[i], divisor);
    }
    round_tile<Type>(spare, rounded, n);
    for (const ReduceOutput& output : call.outputs) {
      if (!output.accumulator) {
        std::memcpy(at<Storage>(output, first), rounded, n * sizeof(Storage));
      }
    }
  }
}

// ---- table --------------------------------------------------------------------------------------

template <ReduceOp kOp>
ReduceFunction of_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return reduce_native<float, kOp>;
    case Dtype::kF64:
      return reduce_native<double, kOp>;
    case Dtype::kBF16:
      return reduce_narrow<Bf16Type, kOp>;
    case Dtype::kF16:
      return reduce_narrow<F16Type, kOp>;
    case Dtype::kF8E5M2:
      return reduce_narrow<Float8Type<F8E5M2>, kOp>;
    case Dtype::kF8E4M3:
      return reduce_narrow<Float8Type<F8E4M3>, kOp>;
    case Dtype::kF8E4M3FN:
      return reduce_narrow<Float8Type<F8E4M3Fn>, kOp>;
    case Dtype::kS8:
      return reduce_native<int8_t, kOp>;
    case Dtype::kS16:
      return reduce_native<int16_t, kOp>;
    case Dtype::kS32:
      return reduce_native<int32_t, kOp>;
    case Dtype::kS64:
      return reduce_native<int64_t, kOp>;
    case Dtype::kU8:
      return reduce_native<uint8_t, kOp>;
    case Dtype::kU16:
      return reduce_native<uint16_t, kOp>;
    case Dtype::kU32:
      return reduce_native<uint32_t, kOp>;
    case Dtype::kU64:
      return reduce_native<uint64_t, kOp>;
    case Dtype::kPred:
      break;
  }
  return nullptr;  // check_reducible() refused it
}

}  // namespace

ReduceFunction ONRT_REDUCE_FUNCTION(Dtype dtype, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return of_type<ReduceOp::kSum>(dtype);
    case ReduceOp::kMin:
      return of_type<ReduceOp::kMin>(dtype);
    case ReduceOp::kMax:
      return of_type<ReduceOp::kMax>(dtype);
    case ReduceOp::kProd:
      return of_type<ReduceOp::kProd>(dtype);
    case ReduceOp::kAvg:
      return of_type<ReduceOp::kAvg>(dtype);
  }
  return nullptr;
}

}  // namespace onrt::cc
