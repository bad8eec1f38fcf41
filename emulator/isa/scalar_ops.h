// SPDX-License-Identifier: Apache-2.0
// The scalar operations of semantics.def on register values.
//
// A register holds an element in one of five classes: f32 for all floats (the value is one of the
// element's type; f64 is held in f32 precision), i32 for s8 s16 s32, u32 for u8 u16 u32 and pred,
// i64, u64. An op computes in the class; settle<Dtype>() then rounds or wraps to the element type.
#pragma once

#include <cstdint>
#include <type_traits>

#include "emulator/isa/scalar_float.h"
#include "emulator/isa/scalar_math.h"
#include "emulator/isa/scalar_op.h"

namespace onrt::ncx {

enum class RegisterClass : uint8_t { kF32, kI32, kU32, kI64, kU64 };
inline constexpr int kRegisterClasses = 5;

ONRT_SCALAR RegisterClass register_class(Dtype dtype) {
  switch (dtype) {
    case Dtype::kS8:
    case Dtype::kS16:
    case Dtype::kS32:
      return RegisterClass::kI32;
    case Dtype::kPred:
    case Dtype::kU8:
    case Dtype::kU16:
    case Dtype::kU32:
      return RegisterClass::kU32;
    case Dtype::kS64:
      return RegisterClass::kI64;
    case Dtype::kU64:
      return RegisterClass::kU64;
    default:
      return RegisterClass::kF32;
  }
}

template <RegisterClass kClass>
using RegisterType = std::conditional_t<
    kClass == RegisterClass::kF32, float,
    std::conditional_t<
        kClass == RegisterClass::kI32, int32_t,
        std::conditional_t<kClass == RegisterClass::kU32, uint32_t,
                           std::conditional_t<kClass == RegisterClass::kI64, int64_t, uint64_t>>>>;

// ---- element <-> register -----------------------------------------------------------------------

// How an element lies in memory, and the functions between it and its register.
template <Dtype kDtype>
struct Element;

#define ONRT_PLAIN_ELEMENT(dtype, memory, reg)                                     \
  template <>                                                                      \
  struct Element<Dtype::dtype> {                                                   \
    using Memory = memory;                                                         \
    using Register = reg;                                                          \
    static constexpr bool kNeedsSettle = sizeof(memory) < sizeof(reg);             \
    ONRT_SCALAR_MEMBER Register load(Memory m) { return static_cast<reg>(m); }     \
    ONRT_SCALAR_MEMBER Memory store(Register r) { return static_cast<memory>(r); } \
    ONRT_SCALAR_MEMBER Register settle(Register r) {                               \
      return static_cast<reg>(static_cast<memory>(r));                             \
    }                                                                              \
  };
#define ONRT_SCALAR_MEMBER [[gnu::always_inline]] static inline
ONRT_PLAIN_ELEMENT(kS8, int8_t, int32_t)
ONRT_PLAIN_ELEMENT(kS16, int16_t, int32_t)
ONRT_PLAIN_ELEMENT(kS32, int32_t, int32_t)
ONRT_PLAIN_ELEMENT(kS64, int64_t, int64_t)
ONRT_PLAIN_ELEMENT(kU8, uint8_t, uint32_t)
ONRT_PLAIN_ELEMENT(kU16, uint16_t, uint32_t)
ONRT_PLAIN_ELEMENT(kU32, uint32_t, uint32_t)
ONRT_PLAIN_ELEMENT(kU64, uint64_t, uint64_t)
ONRT_PLAIN_ELEMENT(kF32, float, float)
#undef ONRT_PLAIN_ELEMENT

template <>
struct Element<Dtype::kF64> {
  using Memory = double;
  using Register = float;
  static constexpr bool kNeedsSettle = false;
  ONRT_SCALAR_MEMBER Register load(Memory m) { return static_cast<float>(m); }
  ONRT_SCALAR_MEMBER Memory store(Register r) { return static_cast<double>(r); }
  ONRT_SCALAR_MEMBER Register settle(Register r) { return r; }
};

// Any byte other than 0 in memory is true.
template <>
struct Element<Dtype::kPred> {
  using Memory = uint8_t;
  using Register = uint32_t;
  static constexpr bool kNeedsSettle = true;
  ONRT_SCALAR_MEMBER Register load(Memory m) { return m != 0; }
  ONRT_SCALAR_MEMBER Memory store(Register r) { return r != 0; }
  ONRT_SCALAR_MEMBER Register settle(Register r) { return r != 0; }
};

template <>
struct Element<Dtype::kBF16> {
  using Memory = uint16_t;
  using Register = float;
  static constexpr bool kNeedsSettle = true;
  ONRT_SCALAR_MEMBER Register load(Memory m) { return unpack_bf16(m); }
  ONRT_SCALAR_MEMBER Memory store(Register r) { return pack_bf16(r); }
  ONRT_SCALAR_MEMBER Register settle(Register r) { return round_to_bf16(r); }
};

#define ONRT_FORMAT_ELEMENT(dtype, memory, format)                                        \
  template <>                                                                             \
  struct Element<Dtype::dtype> {                                                          \
    using Memory = memory;                                                                \
    using Register = float;                                                               \
    static constexpr bool kNeedsSettle = true;                                            \
    ONRT_SCALAR_MEMBER Register load(Memory m) { return unpack_format<format>(m); }       \
    ONRT_SCALAR_MEMBER Memory store(Register r) {                                         \
      return static_cast<memory>(pack_format<format>(r));                                 \
    }                                                                                     \
    ONRT_SCALAR_MEMBER Register settle(Register r) { return round_to_format<format>(r); } \
  };
ONRT_FORMAT_ELEMENT(kF16, uint16_t, FormatF16)
ONRT_FORMAT_ELEMENT(kF8E5M2, uint8_t, FormatE5M2)
ONRT_FORMAT_ELEMENT(kF8E4M3, uint8_t, FormatE4M3)
ONRT_FORMAT_ELEMENT(kF8E4M3FN, uint8_t, FormatE4M3Fn)
#undef ONRT_FORMAT_ELEMENT

// Bits of a type in a register: shifts, bit counts and saturation depend on it.
template <Dtype kDtype>
inline constexpr int kElementBits =
    kDtype == Dtype::kPred ? 1 : static_cast<int>(sizeof(typename Element<kDtype>::Memory) * 8);

// ---- arithmetic ---------------------------------------------------------------------------------

template <class T>
inline constexpr bool kIsFloat = std::is_same_v<T, float>;
// std::make_unsigned_t that accepts float.
template <class T>
using Unsigned = std::make_unsigned_t<std::conditional_t<kIsFloat<T>, uint32_t, T>>;

template <class T>
ONRT_SCALAR T scalar_add(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
}
template <class T>
ONRT_SCALAR T scalar_subtract(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return a - b;
  } else {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
}
template <class T>
ONRT_SCALAR T scalar_multiply(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return a * b;
  } else {
    return static_cast<T>(static_cast<Unsigned<T>>(a) * static_cast<Unsigned<T>>(b));
  }
}
// Exact, as an or and a subtraction: processors before AVX-512 convert signed integers only.
ONRT_SCALAR double unsigned_to_double(uint32_t x) {
  return __builtin_bit_cast(double, 0x4330000000000000ull | x) - 0x1p52;
}
// The whole number nearest to x, 0 <= x < 2^32.
ONRT_SCALAR uint32_t nearest_unsigned(double x) {
  return static_cast<uint32_t>(__builtin_bit_cast(uint64_t, x + 0x1p52));
}
// a / b for b other than 0 and -1. Processors have no vector division of integers; that of doubles
// is exact for 32 bits: a quotient that is no integer is at least 2^-32 of itself away from the
// next one.
template <class T>
ONRT_SCALAR T scalar_quotient(T a, T b) {
  if constexpr (std::is_same_v<T, int32_t>) {
    return static_cast<int32_t>(static_cast<double>(a) / static_cast<double>(b));
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    const double exact = unsigned_to_double(a) / unsigned_to_double(b);
    const uint32_t nearest = nearest_unsigned(exact);
    return nearest - (unsigned_to_double(nearest) > exact ? 1u : 0u);
  } else {
    return a / b;
  }
}
template <class T>
ONRT_SCALAR T scalar_divide(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return a / b;
  } else if constexpr (std::is_signed_v<T>) {
    const T safe = b == 0 || b == -1 ? T{1} : b;
    const T q = scalar_quotient(a, safe);
    return b == 0 ? T{-1} : (b == -1 ? scalar_subtract(T{0}, a) : q);
  } else {
    const T q = scalar_quotient(a, b == 0 ? T{1} : b);
    return b == 0 ? static_cast<T>(~T{0}) : q;
  }
}
template <class T>
ONRT_SCALAR T scalar_remainder(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return __builtin_fmodf(a, b);
  } else if constexpr (std::is_signed_v<T>) {
    const T safe = b == 0 || b == -1 ? T{1} : b;
    const T r = a - scalar_quotient(a, safe) * safe;
    return b == 0 ? a : r;
  } else {
    const T safe = b == 0 ? T{1} : b;
    const T r = a - scalar_quotient(a, safe) * safe;
    return b == 0 ? a : r;
  }
}
template <class T>
ONRT_SCALAR T scalar_maximum(T a, T b) {
  if constexpr (kIsFloat<T>) {
    const float equal = bits_float(float_bits(a) & float_bits(b));  // +0 of (+0, -0)
    const float m = a > b ? a : (b > a ? b : equal);
    return a != a ? a : (b != b ? b : m);
  } else {
    return a > b ? a : b;
  }
}
template <class T>
ONRT_SCALAR T scalar_minimum(T a, T b) {
  if constexpr (kIsFloat<T>) {
    const float equal = bits_float(float_bits(a) | float_bits(b));
    const float m = a < b ? a : (b < a ? b : equal);
    return a != a ? a : (b != b ? b : m);
  } else {
    return a < b ? a : b;
  }
}
template <class T>
ONRT_SCALAR T scalar_clamp(T low, T x, T high) {
  return scalar_minimum(scalar_maximum(low, x), high);
}
template <class T>
ONRT_SCALAR T scalar_negate(T a) {
  if constexpr (kIsFloat<T>) {
    return -a;
  } else {
    return scalar_subtract(T{0}, a);
  }
}
template <class T>
ONRT_SCALAR T scalar_abs(T a) {
  if constexpr (kIsFloat<T>) {
    return abs_float(a);
  } else if constexpr (std::is_signed_v<T>) {
    return a < 0 ? scalar_negate(a) : a;
  } else {
    return a;
  }
}
template <class T>
ONRT_SCALAR T scalar_sign(T a) {
  if constexpr (kIsFloat<T>) {
    return a > 0.0f ? 1.0f : (a < 0.0f ? -1.0f : a);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>((a > 0) - (a < 0));
  } else {
    return a != 0;
  }
}
template <class T>
ONRT_SCALAR T scalar_power(T x, T y) {
  if constexpr (kIsFloat<T>) {
    return power_f32(x, y);
  } else {
    if constexpr (std::is_signed_v<T>) {
      if (y < 0) {
        return x == 1 ? T{1} : (x == -1 ? (y & 1 ? T{-1} : T{1}) : T{0});
      }
    }
    T result = 1;
    for (Unsigned<T> n = static_cast<Unsigned<T>>(y); n != 0; n >>= 1) {
      result = n & 1 ? scalar_multiply(result, x) : result;
      x = scalar_multiply(x, x);
    }
    return result;
  }
}
ONRT_SCALAR float scalar_round_even(float x) {
  // |x| < 2^23: adding and subtracting 2^23 rounds to nearest even.
  const float a = abs_float(x);
  const float r = (a + 8388608.0f) - 8388608.0f;
  return with_sign_of(a < 8388608.0f ? r : a, x);
}
ONRT_SCALAR float scalar_round_afz(float x) {
  const float a = abs_float(x);
  const float even = (a + 8388608.0f) - 8388608.0f;
  const float r = a - even == 0.5f ? even + 1.0f : even;  // a tie that went down
  return with_sign_of(a < 8388608.0f ? r : a, x);
}
ONRT_SCALAR float scalar_floor(float x) {
  const float r = scalar_round_even(x);
  return with_sign_of(r > x ? r - 1.0f : r, x);
}
ONRT_SCALAR float scalar_ceil(float x) {
  const float r = scalar_round_even(x);
  return with_sign_of(r < x ? r + 1.0f : r, x);
}
ONRT_SCALAR uint32_t scalar_is_finite(float x) {
  return (float_bits(x) & 0x7f800000u) != 0x7f800000u;
}

// ---- comparison ---------------------------------------------------------------------------------

// -NaN < -inf < ... < -0 < +0 < ... < +inf < NaN as integers.
ONRT_SCALAR int32_t total_order_key(float x) {
  const int32_t bits = static_cast<int32_t>(float_bits(x));
  return bits ^ static_cast<int32_t>(static_cast<uint32_t>(bits >> 31) >> 1);
}

// ---- bits ---------------------------------------------------------------------------------------
// `bits` is the width of the element type.

template <class T>
ONRT_SCALAR Unsigned<T> width_mask(int bits) {
  return static_cast<Unsigned<T>>(~Unsigned<T>{0}) >> (static_cast<int>(sizeof(T) * 8) - bits);
}
template <class T>
ONRT_SCALAR T scalar_popcount(T a, int bits) {
  return static_cast<T>(__builtin_popcountll(
      static_cast<uint64_t>(static_cast<Unsigned<T>>(a) & width_mask<T>(bits))));
}
template <class T>
ONRT_SCALAR T scalar_leading_zeros(T a, int bits) {
  const uint64_t value = static_cast<Unsigned<T>>(a) & width_mask<T>(bits);
  return static_cast<T>(value == 0 ? bits : __builtin_clzll(value) - (64 - bits));
}
template <class T>
ONRT_SCALAR T scalar_shift_left(T a, T b, int bits) {
  const Unsigned<T> count = static_cast<Unsigned<T>>(b) & width_mask<T>(bits);
  const bool in_range = count < static_cast<Unsigned<T>>(bits);
  return in_range ? static_cast<T>(static_cast<Unsigned<T>>(a) << (in_range ? count : 0)) : T{0};
}
template <class T>
ONRT_SCALAR T scalar_shift_right_logical(T a, T b, int bits) {
  const Unsigned<T> count = static_cast<Unsigned<T>>(b) & width_mask<T>(bits);
  const bool in_range = count < static_cast<Unsigned<T>>(bits);
  const Unsigned<T> value = static_cast<Unsigned<T>>(a) & width_mask<T>(bits);
  return in_range ? static_cast<T>(value >> (in_range ? count : 0)) : T{0};
}
template <class T>
ONRT_SCALAR T scalar_shift_right_arithmetic(T a, T b, int bits) {
  using S = std::make_signed_t<Unsigned<T>>;
  const Unsigned<T> count = static_cast<Unsigned<T>>(b) & width_mask<T>(bits);
  const int spare = static_cast<int>(sizeof(T) * 8) - bits;
  const S value =
      static_cast<S>(static_cast<Unsigned<T>>(static_cast<Unsigned<T>>(a) << spare)) >> spare;
  const Unsigned<T> last = static_cast<Unsigned<T>>(bits - 1);
  return static_cast<T>(value >> (count < last ? count : last));
}

// The upper half of the product of two elements of `bits` bits.
template <class T>
ONRT_SCALAR T scalar_multiply_high(T a, T b, int bits) {
  if constexpr (sizeof(T) == 4) {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> bits);
  } else {
    __extension__ using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> bits);
  }
}

// ---- conversion ---------------------------------------------------------------------------------

// Float to integer: toward zero, saturating, NaN gives 0. `Target` is the memory type.
template <class Target>
ONRT_SCALAR Target float_to_integer(float x) {
  constexpr bool kSigned = std::is_signed_v<Target>;
  constexpr int kBits = static_cast<int>(sizeof(Target) * 8) - (kSigned ? 1 : 0);
  // 2^kBits: the first value that is too large.
  const float limit = bits_float(static_cast<uint32_t>(127 + kBits) << 23);
  constexpr Target kMax = static_cast<Target>(
      kSigned ? (static_cast<std::make_unsigned_t<Target>>(~std::make_unsigned_t<Target>{0}) >> 1)
              : static_cast<std::make_unsigned_t<Target>>(~std::make_unsigned_t<Target>{0}));
  constexpr Target kMin = kSigned ? static_cast<Target>(-kMax - 1) : Target{0};
  const bool inside = x < limit && x > (kSigned ? -limit : -1.0f);
  const float safe = inside ? x : 0.0f;
  const Target value = static_cast<Target>(safe);
  const Target outside = x >= limit ? kMax : (x < 0.0f ? kMin : Target{0});
  return inside ? value : outside;
}

// Register of kFrom to register of kTo, by XLA's rules.
template <Dtype kFrom, Dtype kTo>
ONRT_SCALAR typename Element<kTo>::Register convert_element(typename Element<kFrom>::Register x) {
  using From = typename Element<kFrom>::Register;
  using To = typename Element<kTo>::Register;
  if constexpr (kTo == Dtype::kPred) {
    return x != From{0};
  } else if constexpr (kIsFloat<From> && !kIsFloat<To>) {
    return static_cast<To>(float_to_integer<typename Element<kTo>::Memory>(x));
  } else {
    return Element<kTo>::settle(static_cast<To>(x));
  }
}

}  // namespace onrt::ncx
