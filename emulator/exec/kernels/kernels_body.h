// SPDX-License-Identifier: Apache-2.0
// The loops. Included by one .cc per SIMD level, which defines ONRT_KERNEL_TABLE, the name of the
// function that returns its table; everything here has internal linkage.
//
// The compiler vectorises: each loop body is one scalar function of scalar_ops.h. `ivdep` is true
// because an output is either exactly an operand or apart from all of them.
#include <cstring>

#include "emulator/exec/kernels/kernels.h"
#include "emulator/isa/reduce_order.h"
#ifdef __AVX2__
#include "emulator/exec/kernels/vector_math.h"
#endif

namespace onrt {
namespace {

using ncx::Element;
using ncx::RegisterClass;
using ncx::RegisterType;
using ncx::ScalarOp;
using ncx::Trigonometric;

// ---- loops --------------------------------------------------------------------------------------

template <class Out, class In, class F>
[[gnu::always_inline]] inline void map1(void* out, const void* a, size_t n, F f) {
  auto* o = static_cast<Out*>(out);
  const auto* x = static_cast<const In*>(a);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) {
    o[i] = f(x[i]);
  }
}

template <class Out, class In, class F>
[[gnu::always_inline]] inline void map2(void* out, const void* a, const void* b, size_t n, F f) {
  auto* o = static_cast<Out*>(out);
  const auto* x = static_cast<const In*>(a);
  const auto* y = static_cast<const In*>(b);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) {
    o[i] = f(x[i], y[i]);
  }
}

template <class T>
void clamp_loop(void* out, const void* a, const void* b, const void* c, size_t n, uint64_t) {
  auto* o = static_cast<T*>(out);
  const auto* low = static_cast<const T*>(a);
  const auto* x = static_cast<const T*>(b);
  const auto* high = static_cast<const T*>(c);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) {
    o[i] = ncx::scalar_clamp(low[i], x[i], high[i]);
  }
}

template <class T>
void select_loop(void* out, const void* a, const void* b, const void* c, size_t n, uint64_t) {
  auto* o = static_cast<T*>(out);
  const auto* p = static_cast<const uint32_t*>(a);
  const auto* x = static_cast<const T*>(b);
  const auto* y = static_cast<const T*>(c);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) {
    const T on_true = x[i];
    const T on_false = y[i];
    o[i] = p[i] != 0 ? on_true : on_false;
  }
}

template <class T>
void fill_loop(void* out, const void*, const void*, const void*, size_t n, uint64_t immediate) {
  T value;
  std::memcpy(&value, &immediate, sizeof(T));
  auto* o = static_cast<T*>(out);
  for (size_t i = 0; i < n; ++i) {
    o[i] = value;
  }
}

template <Trigonometric kFunction>
void trigonometric_loop(void* out, const void* a, const void*, const void*, size_t n, uint64_t) {
  auto* o = static_cast<float*>(out);
  const auto* x = static_cast<const float*>(a);
  // In pieces, because `out` may be `a` and the rare repair below needs the operand.
  constexpr size_t kPiece = 256;
  float saved[kPiece];
  for (size_t begin = 0; begin < n; begin += kPiece) {
    const size_t count = n - begin < kPiece ? n - begin : kPiece;
    std::memcpy(saved, x + begin, count * sizeof(float));
    uint32_t large = 0;
    for (size_t i = 0; i < count; ++i) {
      large |= static_cast<uint32_t>(!(ncx::abs_float(saved[i]) < ncx::kTrigonometryLimit));
      o[begin + i] = ncx::trigonometric_small<kFunction>(saved[i]);
    }
    for (size_t i = 0; large != 0 && i < count; ++i) {
      if (!(ncx::abs_float(saved[i]) < ncx::kTrigonometryLimit)) {
        o[begin + i] = ncx::trigonometric_f32<kFunction>(saved[i]);
      }
    }
  }
}

// ---- wrappers: a function object of scalars becomes an OpKernel ---------------------------------

#define ONRT_UNARY(T, expression)                                                               \
  [](void* out, const void* a, const void*, const void*, size_t n,                              \
     [[maybe_unused]] uint64_t imm) {                                                           \
    map1<T, T>(out, a, n, [=](T x) __attribute__((always_inline)) -> T { return expression; }); \
  }
#define ONRT_BINARY(T, Out, expression)                                                       \
  [](void* out, const void* a, const void* b, const void*, size_t n,                          \
     [[maybe_unused]] uint64_t imm) {                                                         \
    map2<Out, T>(out, a, b, n,                                                                \
                 [=](T x, T y) __attribute__((always_inline)) -> Out { return expression; }); \
  }

template <RegisterClass kClass>
void add_common(KernelTable& table) {
  using T = RegisterType<kClass>;
  const auto set = [&](ScalarOp op, OpKernel kernel) {
    table.op[static_cast<size_t>(op)][static_cast<size_t>(kClass)] = kernel;
  };
  set(ScalarOp::kAbs, ONRT_UNARY(T, ncx::scalar_abs(x)));
  set(ScalarOp::kNegate, ONRT_UNARY(T, ncx::scalar_negate(x)));
  set(ScalarOp::kSign, ONRT_UNARY(T, ncx::scalar_sign(x)));
  set(ScalarOp::kAdd, ONRT_BINARY(T, T, ncx::scalar_add(x, y)));
  set(ScalarOp::kSubtract, ONRT_BINARY(T, T, ncx::scalar_subtract(x, y)));
  set(ScalarOp::kMultiply, ONRT_BINARY(T, T, ncx::scalar_multiply(x, y)));
  set(ScalarOp::kDivide, ONRT_BINARY(T, T, ncx::scalar_divide(x, y)));
  set(ScalarOp::kRemainder, ONRT_BINARY(T, T, ncx::scalar_remainder(x, y)));
  set(ScalarOp::kMaximum, ONRT_BINARY(T, T, ncx::scalar_maximum(x, y)));
  set(ScalarOp::kMinimum, ONRT_BINARY(T, T, ncx::scalar_minimum(x, y)));
  set(ScalarOp::kPower, ONRT_BINARY(T, T, ncx::scalar_power(x, y)));
  set(ScalarOp::kCompareEq, ONRT_BINARY(T, uint32_t, x == y));
  set(ScalarOp::kCompareNe, ONRT_BINARY(T, uint32_t, x != y));
  set(ScalarOp::kCompareLt, ONRT_BINARY(T, uint32_t, x < y));
  set(ScalarOp::kCompareLe, ONRT_BINARY(T, uint32_t, x <= y));
  set(ScalarOp::kCompareGt, ONRT_BINARY(T, uint32_t, x > y));
  set(ScalarOp::kCompareGe, ONRT_BINARY(T, uint32_t, x >= y));
  set(ScalarOp::kClamp, clamp_loop<T>);
  table.fill[static_cast<size_t>(kClass)] = fill_loop<T>;
}

template <RegisterClass kClass>
void add_integer(KernelTable& table) {
  using T = RegisterType<kClass>;
  const auto set = [&](ScalarOp op, OpKernel kernel) {
    table.op[static_cast<size_t>(op)][static_cast<size_t>(kClass)] = kernel;
  };
  set(ScalarOp::kNot, ONRT_UNARY(T, static_cast<T>(imm == 1 ? x ^ T{1} : ~x)));
  set(ScalarOp::kPopulationCount, ONRT_UNARY(T, ncx::scalar_popcount(x, static_cast<int>(imm))));
  set(ScalarOp::kCountLeadingZeros,
      ONRT_UNARY(T, ncx::scalar_leading_zeros(x, static_cast<int>(imm))));
  set(ScalarOp::kAnd, ONRT_BINARY(T, T, static_cast<T>(x & y)));
  set(ScalarOp::kOr, ONRT_BINARY(T, T, static_cast<T>(x | y)));
  set(ScalarOp::kXor, ONRT_BINARY(T, T, static_cast<T>(x ^ y)));
  set(ScalarOp::kShiftLeft, ONRT_BINARY(T, T, ncx::scalar_shift_left(x, y, static_cast<int>(imm))));
  set(ScalarOp::kShiftRightArithmetic,
      ONRT_BINARY(T, T, ncx::scalar_shift_right_arithmetic(x, y, static_cast<int>(imm))));
  set(ScalarOp::kShiftRightLogical,
      ONRT_BINARY(T, T, ncx::scalar_shift_right_logical(x, y, static_cast<int>(imm))));
  set(ScalarOp::kMulhi, ONRT_BINARY(T, T, ncx::scalar_multiply_high(x, y, static_cast<int>(imm))));
}

void add_float(KernelTable& table) {
  const auto set = [&](ScalarOp op, OpKernel kernel) {
    table.op[static_cast<size_t>(op)][static_cast<size_t>(RegisterClass::kF32)] = kernel;
  };
  set(ScalarOp::kExp, ONRT_UNARY(float, ncx::exp_f32(x)));
  set(ScalarOp::kExpm1, ONRT_UNARY(float, ncx::expm1_f32(x)));
  set(ScalarOp::kLog, ONRT_UNARY(float, ncx::log_f32(x)));
  set(ScalarOp::kLog1p, ONRT_UNARY(float, ncx::log1p_f32(x)));
  set(ScalarOp::kLogistic, ONRT_UNARY(float, ncx::logistic_f32(x)));
  set(ScalarOp::kTanh, ONRT_UNARY(float, ncx::tanh_f32(x)));
  set(ScalarOp::kSqrt, ONRT_UNARY(float, ncx::square_root(x)));
  set(ScalarOp::kRsqrt, ONRT_UNARY(float, ncx::rsqrt_f32(x)));
  set(ScalarOp::kCbrt, ONRT_UNARY(float, ncx::cbrt_f32(x)));
  set(ScalarOp::kErf, ONRT_UNARY(float, ncx::erf_f32(x)));
  set(ScalarOp::kSin, trigonometric_loop<Trigonometric::kSin>);
  set(ScalarOp::kCos, trigonometric_loop<Trigonometric::kCos>);
  set(ScalarOp::kTan, trigonometric_loop<Trigonometric::kTan>);
  set(ScalarOp::kAcos, ONRT_UNARY(float, ncx::acos_f32(x)));
  set(ScalarOp::kAcosh, ONRT_UNARY(float, ncx::acosh_f32(x)));
  set(ScalarOp::kAsin, ONRT_UNARY(float, ncx::asin_f32(x)));
  set(ScalarOp::kAsinh, ONRT_UNARY(float, ncx::asinh_f32(x)));
  set(ScalarOp::kAtan, ONRT_UNARY(float, ncx::atan_f32(x)));
  set(ScalarOp::kAtanh, ONRT_UNARY(float, ncx::atanh_f32(x)));
  set(ScalarOp::kCosh, ONRT_UNARY(float, ncx::cosh_f32(x)));
  set(ScalarOp::kSinh, ONRT_UNARY(float, ncx::sinh_f32(x)));
  set(ScalarOp::kFloor, ONRT_UNARY(float, ncx::scalar_floor(x)));
  set(ScalarOp::kCeil, ONRT_UNARY(float, ncx::scalar_ceil(x)));
  set(ScalarOp::kRoundNearestEven, ONRT_UNARY(float, ncx::scalar_round_even(x)));
  set(ScalarOp::kRoundNearestAfz, ONRT_UNARY(float, ncx::scalar_round_afz(x)));
  set(ScalarOp::kReducePrecision,
      ONRT_UNARY(float, ncx::reduce_precision(x, static_cast<int32_t>(imm & 0xff),
                                              static_cast<int32_t>((imm >> 8) & 0xff))));
  set(ScalarOp::kIsFinite,
      [](void* out, const void* a, const void*, const void*, size_t n, uint64_t) {
        map1<uint32_t, float>(out, a, n, [](float x) __attribute__((always_inline)) -> uint32_t {
          return ncx::scalar_is_finite(x);
        });
      });
  set(ScalarOp::kAtan2, ONRT_BINARY(float, float, ncx::atan2_f32(x, y)));
#define ONRT_TOTAL(op) \
  ONRT_BINARY(float, uint32_t, ncx::total_order_key(x) op ncx::total_order_key(y))
  set(ScalarOp::kCompareTotalEq, ONRT_TOTAL(==));
  set(ScalarOp::kCompareTotalNe, ONRT_TOTAL(!=));
  set(ScalarOp::kCompareTotalLt, ONRT_TOTAL(<));
  set(ScalarOp::kCompareTotalLe, ONRT_TOTAL(<=));
  set(ScalarOp::kCompareTotalGt, ONRT_TOTAL(>));
  set(ScalarOp::kCompareTotalGe, ONRT_TOTAL(>=));
#undef ONRT_TOTAL
}

// ---- moves and conversions ----------------------------------------------------------------------

template <Dtype kType>
void load_loop(void* out, const void* in, int64_t, size_t n) {
  using E = Element<kType>;
  map1<typename E::Register, typename E::Memory>(
      out, in, n, [](typename E::Memory m) __attribute__((always_inline)) { return E::load(m); });
}
template <Dtype kType>
void store_loop(void* out, const void* in, int64_t, size_t n) {
  using E = Element<kType>;
  map1<typename E::Memory, typename E::Register>(
      out, in, n,
      [](typename E::Register r) __attribute__((always_inline)) { return E::store(r); });
}
template <Dtype kType>
void load_strided_loop(void* out, const void* in, int64_t stride, size_t n) {
  using E = Element<kType>;
  auto* o = static_cast<typename E::Register*>(out);
  const auto* x = static_cast<const typename E::Memory*>(in);
  if (stride == 0) {  // a broadcast: by far the most frequent
    const typename E::Register value = E::load(x[0]);
    for (size_t i = 0; i < n; ++i) {
      o[i] = value;
    }
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    o[i] = E::load(x[static_cast<int64_t>(i) * stride]);
  }
}
template <Dtype kType>
void store_strided_loop(void* out, const void* in, int64_t stride, size_t n) {
  using E = Element<kType>;
  auto* o = static_cast<typename E::Memory*>(out);
  const auto* x = static_cast<const typename E::Register*>(in);
  for (size_t i = 0; i < n; ++i) {
    o[static_cast<int64_t>(i) * stride] = E::store(x[i]);
  }
}
template <Dtype kType>
void settle_loop(void* out, const void* a, const void*, const void*, size_t n, uint64_t) {
  using E = Element<kType>;
  using R = typename E::Register;
  map1<R, R>(out, a, n, [](R r) __attribute__((always_inline)) { return E::settle(r); });
}
template <Dtype kFrom, Dtype kTo>
void convert_loop(void* out, const void* a, const void*, const void*, size_t n, uint64_t) {
  using From = typename Element<kFrom>::Register;
  using To = typename Element<kTo>::Register;
  map1<To, From>(out, a, n, [](From x) __attribute__((always_inline)) {
    return ncx::convert_element<kFrom, kTo>(x);
  });
}

template <Dtype kType>
void add_type(KernelTable& table) {
  constexpr auto kIndex = static_cast<size_t>(kType);
  static_assert(kIndex < kDtypeNumbers);
  table.load[kIndex] = load_loop<kType>;
  table.store[kIndex] = store_loop<kType>;
  table.load_strided[kIndex] = load_strided_loop<kType>;
  table.store_strided[kIndex] = store_strided_loop<kType>;
  if (Element<kType>::kNeedsSettle) {
    table.settle[kIndex] = settle_loop<kType>;
  }
  const auto set = [&](RegisterClass from, OpKernel kernel) {
    table.convert[static_cast<size_t>(from)][kIndex] = kernel;
  };
  // A register's value is exact in the widest type of its class.
  set(RegisterClass::kF32, convert_loop<Dtype::kF32, kType>);
  set(RegisterClass::kI32, convert_loop<Dtype::kS32, kType>);
  set(RegisterClass::kU32, convert_loop<Dtype::kU32, kType>);
  set(RegisterClass::kI64, convert_loop<Dtype::kS64, kType>);
  set(RegisterClass::kU64, convert_loop<Dtype::kU64, kType>);
}

// ---- folds --------------------------------------------------------------------------------------

// Eight lanes as one vector of the compiler; narrower machines split it.
template <class T>
struct LanesOf {
  using Word = ncx::Unsigned<T>;
  using Element = std::conditional_t<ncx::kIsFloat<T>, float, Word>;
  typedef Element Vector __attribute__((vector_size(sizeof(Element) * ncx::kReduceLanes)));
  typedef T Raw __attribute__((vector_size(sizeof(T) * ncx::kReduceLanes)));
  typedef Word Words __attribute__((vector_size(sizeof(Word) * ncx::kReduceLanes)));
};

// combine(a, b) for eight lanes: the same values as the scalar functions.
template <ScalarOp kOp, class T>
[[gnu::always_inline]] inline typename LanesOf<T>::Raw combine_lanes(typename LanesOf<T>::Raw a,
                                                                     typename LanesOf<T>::Raw b) {
  using Vector = typename LanesOf<T>::Vector;
  using Raw = typename LanesOf<T>::Raw;
  using Words = typename LanesOf<T>::Words;
  if constexpr (kOp == ScalarOp::kAdd) {
    return (Raw)((Vector)a + (Vector)b);
  } else if constexpr (kOp == ScalarOp::kMultiply) {
    return (Raw)((Vector)a * (Vector)b);
  } else if constexpr (kOp == ScalarOp::kAnd) {
    return (Raw)((Words)a & (Words)b);
  } else if constexpr (kOp == ScalarOp::kOr) {
    return (Raw)((Words)a | (Words)b);
  } else if constexpr (kOp == ScalarOp::kXor) {
    return (Raw)((Words)a ^ (Words)b);
  } else {
    constexpr bool kMax = kOp == ScalarOp::kMaximum;
    const auto first = kMax ? a > b : a < b;
    const auto second = kMax ? b > a : b < a;
    if constexpr (ncx::kIsFloat<T>) {
      const Raw equal = kMax ? (Raw)((Words)a & (Words)b) : (Raw)((Words)a | (Words)b);
      const Raw m = first ? a : (second ? b : equal);
      return (a != a) ? a : ((b != b) ? b : m);
    } else {
      return first ? a : (second ? b : a);
    }
  }
}

template <class T>
[[gnu::always_inline]] inline typename LanesOf<T>::Raw load_lanes(const T* x) {
  typename LanesOf<T>::Raw v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}

template <ScalarOp kOp, class T>
[[gnu::always_inline]] inline T combine_scalar(T a, T b) {
  if constexpr (kOp == ScalarOp::kAdd) {
    return ncx::scalar_add(a, b);
  } else if constexpr (kOp == ScalarOp::kMultiply) {
    return ncx::scalar_multiply(a, b);
  } else if constexpr (kOp == ScalarOp::kMaximum) {
    return ncx::scalar_maximum(a, b);
  } else if constexpr (kOp == ScalarOp::kMinimum) {
    return ncx::scalar_minimum(a, b);
  } else if constexpr (kOp == ScalarOp::kAnd) {
    return static_cast<T>(a & b);
  } else if constexpr (kOp == ScalarOp::kOr) {
    return static_cast<T>(a | b);
  } else {
    return static_cast<T>(a ^ b);
  }
}

// The rest of a row after whole groups of eight, then the lanes in halves.
template <ScalarOp kOp, class T>
[[gnu::always_inline]] inline T finish_fold(typename LanesOf<T>::Raw acc, const T* rest, size_t n) {
  T lanes[ncx::kReduceLanes];
  std::memcpy(lanes, &acc, sizeof(lanes));
  for (size_t i = 0; i < n; ++i) {
    lanes[i] = combine_scalar<kOp>(lanes[i], rest[i]);
  }
  for (int half = ncx::kReduceLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      lanes[lane] = combine_scalar<kOp>(lanes[lane], lanes[lane + half]);
    }
  }
  return lanes[0];
}

template <ScalarOp kOp, class T>
T fold_short(const T* x, size_t n) {
  T lanes[ncx::kReduceLanes];
  std::memcpy(lanes, x, n * sizeof(T));
  const int used = static_cast<int>(n);
  for (int half = ncx::kReduceLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half && lane + half < used; ++lane) {
      lanes[lane] = combine_scalar<kOp>(lanes[lane], lanes[lane + half]);
    }
  }
  return lanes[0];
}

// Four rows at a time: their chains of dependent operations overlap.
template <ScalarOp kOp, class T>
void fold_loop(void* out, const void* in, size_t n, size_t rows, int64_t row_stride) {
  using Raw = typename LanesOf<T>::Raw;
  constexpr size_t kLanes = ncx::kReduceLanes;
  auto* o = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(in);
  if (n < kLanes) {
    for (size_t r = 0; r < rows; ++r) {
      o[r] = fold_short<kOp>(x + static_cast<int64_t>(r) * row_stride, n);
    }
    return;
  }
  const size_t whole = n / kLanes * kLanes;
  size_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* row[4];
    Raw acc[4];
    for (int k = 0; k < 4; ++k) {
      row[k] = x + static_cast<int64_t>(r + static_cast<size_t>(k)) * row_stride;
      acc[k] = load_lanes(row[k]);
    }
    for (size_t i = kLanes; i < whole; i += kLanes) {
      acc[0] = combine_lanes<kOp, T>(acc[0], load_lanes(row[0] + i));
      acc[1] = combine_lanes<kOp, T>(acc[1], load_lanes(row[1] + i));
      acc[2] = combine_lanes<kOp, T>(acc[2], load_lanes(row[2] + i));
      acc[3] = combine_lanes<kOp, T>(acc[3], load_lanes(row[3] + i));
    }
    for (size_t k = 0; k < 4; ++k) {
      o[r + k] = finish_fold<kOp, T>(acc[k], row[k] + whole, n - whole);
    }
  }
  for (; r < rows; ++r) {
    const T* row = x + static_cast<int64_t>(r) * row_stride;
    Raw acc = load_lanes(row);
    for (size_t i = kLanes; i < whole; i += kLanes) {
      acc = combine_lanes<kOp, T>(acc, load_lanes(row + i));
    }
    o[r] = finish_fold<kOp, T>(acc, row + whole, n - whole);
  }
}

// Part by part, so that the running values stay close while the taps are walked.
template <ScalarOp kOp, class T>
void taps_loop(void* out, const void* in, const int64_t* offsets, size_t count, int64_t stride,
               size_t n) {
  constexpr size_t kPart = 64;
  auto* o = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(in);
  for (size_t begin = 0; begin < n; begin += kPart) {
    const size_t m = n - begin < kPart ? n - begin : kPart;
    const T* part = x + static_cast<int64_t>(begin) * stride;
    T acc[kPart];
    for (size_t k = 0; k < count; ++k) {
      const T* y = part + offsets[k];
      if (k == 0) {
        for (size_t i = 0; i < m; ++i) {
          acc[i] = y[static_cast<int64_t>(i) * stride];
        }
      } else if (stride == 1) {
        for (size_t i = 0; i < m; ++i) {
          acc[i] = combine_scalar<kOp>(acc[i], y[i]);
        }
      } else if (stride == 2) {
        for (size_t i = 0; i < m; ++i) {
          acc[i] = combine_scalar<kOp>(acc[i], y[2 * i]);
        }
      } else {
        for (size_t i = 0; i < m; ++i) {
          acc[i] = combine_scalar<kOp>(acc[i], y[static_cast<int64_t>(i) * stride]);
        }
      }
    }
    std::memcpy(o + begin, acc, m * sizeof(T));
  }
}

template <ScalarOp kOp, class T>
void scan_loop(void* out, const void* a, const void*, const void*, size_t n, uint64_t) {
  auto* o = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  T acc = x[0];
  o[0] = acc;
  for (size_t i = 1; i < n; ++i) {
    acc = combine_scalar<kOp>(acc, x[i]);
    o[i] = acc;
  }
}

template <ScalarOp kOp, RegisterClass kClass>
void add_combiner(KernelTable& table) {
  using T = RegisterType<kClass>;
  const auto op = static_cast<size_t>(kOp);
  const auto reg = static_cast<size_t>(kClass);
  table.fold[op][reg] = fold_loop<kOp, T>;
  table.fold_taps[op][reg] = taps_loop<kOp, T>;
  table.scan[op][reg] = scan_loop<kOp, T>;
}

template <RegisterClass kClass>
void add_folds(KernelTable& table) {
  add_combiner<ScalarOp::kAdd, kClass>(table);
  add_combiner<ScalarOp::kMultiply, kClass>(table);
  add_combiner<ScalarOp::kMaximum, kClass>(table);
  add_combiner<ScalarOp::kMinimum, kClass>(table);
  if constexpr (!ncx::kIsFloat<RegisterType<kClass>>) {
    add_combiner<ScalarOp::kAnd, kClass>(table);
    add_combiner<ScalarOp::kOr, kClass>(table);
    add_combiner<ScalarOp::kXor, kClass>(table);
  }
}

// ---- several ops at once ------------------------------------------------------------------------

template <int kOp, class T>
[[gnu::always_inline]] inline T chain_op(T a, T b) {
  if constexpr (kOp == 0) {
    return ncx::scalar_add(a, b);
  } else if constexpr (kOp == 1) {
    return ncx::scalar_subtract(a, b);
  } else {
    return ncx::scalar_multiply(a, b);
  }
}

template <int kOuter, int kInner, int kSide, class T>
void chain_loop(void* out, const void* a, const void* b, const void* c, size_t n, uint64_t) {
  auto* o = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  const auto* z = static_cast<const T*>(c);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) {
    const T inner = chain_op<kInner>(x[i], y[i]);
    o[i] = kSide == 0 ? chain_op<kOuter>(inner, z[i]) : chain_op<kOuter>(z[i], inner);
  }
}

template <class T, int kOuter, int kInner>
void add_chain(KernelTable::ChainKernels& table) {
  table[kOuter][kInner] = {chain_loop<kOuter, kInner, 0, T>, chain_loop<kOuter, kInner, 1, T>};
}
template <class T, int kOuter>
void add_chains_of(KernelTable::ChainKernels& table) {
  add_chain<T, kOuter, 0>(table);
  add_chain<T, kOuter, 1>(table);
  add_chain<T, kOuter, 2>(table);
}
template <class T>
void add_chains(KernelTable::ChainKernels& table) {
  add_chains_of<T, 0>(table);
  add_chains_of<T, 1>(table);
  add_chains_of<T, 2>(table);
}

template <int kCompare, class T>
void compare_select_loop(void* out, const void* a, const void* b, const void* c, size_t n,
                         uint64_t immediate) {
  T with;
  std::memcpy(&with, &immediate, sizeof(T));
  auto* o = static_cast<uint32_t*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* yes = static_cast<const uint32_t*>(b);
  const auto* no = static_cast<const uint32_t*>(c);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) {
    const bool chosen = kCompare == 0   ? x[i] == with
                        : kCompare == 1 ? x[i] != with
                        : kCompare == 2 ? x[i] < with
                        : kCompare == 3 ? x[i] <= with
                        : kCompare == 4 ? x[i] > with
                                        : x[i] >= with;
    const uint32_t on_true = yes[i];
    const uint32_t on_false = no[i];
    o[i] = chosen ? on_true : on_false;
  }
}

template <RegisterClass kClass>
void add_compare_selects(KernelTable& table) {
  using T = RegisterType<kClass>;
  constexpr auto kColumn = static_cast<size_t>(kClass);
  const auto row = [](ScalarOp op) {
    return static_cast<size_t>(op) - static_cast<size_t>(ScalarOp::kCompareEq);
  };
  table.compare_select[row(ScalarOp::kCompareEq)][kColumn] = compare_select_loop<0, T>;
  table.compare_select[row(ScalarOp::kCompareNe)][kColumn] = compare_select_loop<1, T>;
  table.compare_select[row(ScalarOp::kCompareLt)][kColumn] = compare_select_loop<2, T>;
  table.compare_select[row(ScalarOp::kCompareLe)][kColumn] = compare_select_loop<3, T>;
  table.compare_select[row(ScalarOp::kCompareGt)][kColumn] = compare_select_loop<4, T>;
  table.compare_select[row(ScalarOp::kCompareGe)][kColumn] = compare_select_loop<5, T>;
}

// The immediate as a pair of counts; a count of 0 is none.
[[gnu::always_inline]] inline uint32_t rotated(uint32_t x, uint64_t counts) {
  return x << (counts & 31) | x >> (counts >> 8 & 31);
}
void rotate_loop(void* out, const void* a, const void*, const void*, size_t n, uint64_t counts) {
  map1<uint32_t, uint32_t>(
      out, a, n, [=](uint32_t x) __attribute__((always_inline)) { return rotated(x, counts); });
}
void rotate_xor_loop(void* out, const void* a, const void* b, const void*, size_t n,
                     uint64_t counts) {
  map2<uint32_t, uint32_t>(out, a, b, n,
                           [=](uint32_t x, uint32_t y)
                               __attribute__((always_inline)) { return rotated(x, counts) ^ y; });
}

[[gnu::always_inline]] inline uint32_t rotated_by(uint32_t x, uint32_t count) {
  return ncx::scalar_shift_left(x, count, 32) | ncx::scalar_shift_right_logical(x, 32u - count, 32);
}
void rotate_by_loop(void* out, const void* a, const void* b, const void*, size_t n, uint64_t) {
  map2<uint32_t, uint32_t>(out, a, b, n, [](uint32_t x, uint32_t y) __attribute__((always_inline)) {
    return rotated_by(x, y);
  });
}
void rotate_by_xor_loop(void* out, const void* a, const void* b, const void* c, size_t n,
                        uint64_t) {
  auto* o = static_cast<uint32_t*>(out);
  const auto* x = static_cast<const uint32_t*>(a);
  const auto* y = static_cast<const uint32_t*>(b);
  const auto* z = static_cast<const uint32_t*>(c);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) {
    o[i] = rotated_by(x[i], y[i]) ^ z[i];
  }
}

template <class T>
[[gnu::always_inline]] inline uint32_t sign_mask(T x) {
  return std::is_signed_v<T> ? static_cast<uint32_t>(static_cast<int32_t>(x) >> 31) : 0u;
}

// The quotient of magnitudes is the nearest whole number to x / by, one less if that is too much.
template <class T, bool kRemainder>
void divide_by_loop(void* out, const void* a, const void*, const void*, size_t n, uint64_t imm) {
  const auto by = static_cast<uint32_t>(imm);
  const double inverse = 1.0 / static_cast<double>(by);
  map1<T, T>(out, a, n, [=](T x) __attribute__((always_inline)) {
    const uint32_t sign = sign_mask(x);
    const uint32_t magnitude = (static_cast<uint32_t>(x) ^ sign) - sign;
    const uint32_t nearest = ncx::nearest_unsigned(ncx::unsigned_to_double(magnitude) * inverse);
    const uint32_t rest = magnitude - nearest * by;
    const uint32_t below = static_cast<uint32_t>(static_cast<int32_t>(rest) >> 31);
    const uint32_t y = kRemainder ? rest + (by & below) : nearest + below;
    return static_cast<T>((y ^ sign) - sign);
  });
}

template <class T, bool kRemainder>
void divide_by_power_loop(void* out, const void* a, const void*, const void*, size_t n,
                          uint64_t imm) {
  const auto shift = static_cast<uint32_t>(imm & 31);
  const uint32_t mask = (1u << shift) - 1u;
  map1<T, T>(out, a, n, [=](T x) __attribute__((always_inline)) {
    const uint32_t bias = sign_mask(x) & mask;  // rounds towards zero
    const T biased = static_cast<T>(static_cast<uint32_t>(x) + bias);
    if constexpr (kRemainder) {
      return static_cast<T>((static_cast<uint32_t>(biased) & mask) - bias);
    } else {
      return static_cast<T>(biased >> shift);
    }
  });
}

template <RegisterClass kClass>
void add_divisions(KernelTable& table) {
  using T = RegisterType<kClass>;
  constexpr auto kColumn = static_cast<size_t>(kClass);
  table.divide_by[kColumn] = divide_by_loop<T, false>;
  table.remainder_by[kColumn] = divide_by_loop<T, true>;
  table.divide_by_power[kColumn] = divide_by_power_loop<T, false>;
  table.remainder_by_power[kColumn] = divide_by_power_loop<T, true>;
}

KernelTable make_table() {
  KernelTable table;
  add_common<RegisterClass::kF32>(table);
  add_common<RegisterClass::kI32>(table);
  add_common<RegisterClass::kU32>(table);
  add_common<RegisterClass::kI64>(table);
  add_common<RegisterClass::kU64>(table);
  add_integer<RegisterClass::kI32>(table);
  add_integer<RegisterClass::kU32>(table);
  add_integer<RegisterClass::kI64>(table);
  add_integer<RegisterClass::kU64>(table);
  add_float(table);
#define ONRT_DTYPE(name, text, bytes, nrt, xla) add_type<Dtype::k##name>(table);
#include "runtime/base/dtype.def"
#undef ONRT_DTYPE
  add_folds<RegisterClass::kF32>(table);
  add_folds<RegisterClass::kI32>(table);
  add_folds<RegisterClass::kU32>(table);
  add_folds<RegisterClass::kI64>(table);
  add_folds<RegisterClass::kU64>(table);
  add_chains<float>(table.chain_float);
  add_chains<uint32_t>(table.chain_integer);
  add_compare_selects<RegisterClass::kF32>(table);
  add_compare_selects<RegisterClass::kI32>(table);
  add_compare_selects<RegisterClass::kU32>(table);
  add_divisions<RegisterClass::kI32>(table);
  add_divisions<RegisterClass::kU32>(table);
  table.rotate = rotate_loop;
  table.rotate_xor = rotate_xor_loop;
  table.rotate_by = rotate_by_loop;
  table.rotate_by_xor = rotate_by_xor_loop;
  table.select32 = select_loop<uint32_t>;
  table.select64 = select_loop<uint64_t>;
#ifdef __AVX2__
  add_vector_math<fold_loop<ScalarOp::kMaximum, float>, fold_loop<ScalarOp::kMinimum, float>>(
      table);
#endif
  return table;
}

}  // namespace

const KernelTable& ONRT_KERNEL_TABLE() {
  static const KernelTable kTable = make_table();
  return kTable;
}

}  // namespace onrt
