// SPDX-License-Identifier: Apache-2.0
// Float formats: rounding an f32 value to bf16, f16 and fp8 (nearest even), packing, unpacking.
//
// Every function here and in scalar_math.h and scalar_ops.h is static, always inlined and free of
// branches: it is compiled into translation units of several instruction-set levels, in loops that
// the compiler vectorises, and gives the same bits in all of them.
#pragma once

#include <cstdint>

#define ONRT_SCALAR [[maybe_unused, gnu::always_inline]] static inline

namespace onrt::ncx {

ONRT_SCALAR uint32_t float_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
ONRT_SCALAR float bits_float(uint32_t x) { return __builtin_bit_cast(float, x); }
ONRT_SCALAR float with_sign_of(float magnitude, float sign) {
  return bits_float((float_bits(magnitude) & 0x7fffffffu) | (float_bits(sign) & 0x80000000u));
}
ONRT_SCALAR float abs_float(float x) { return bits_float(float_bits(x) & 0x7fffffffu); }
inline constexpr float kInfinity = __builtin_inff();
inline constexpr float kQuietNan = __builtin_nanf("");

// A float format with an implicit leading one. kIeee: has infinities; otherwise (e4m3fn) the
// all-ones code is the only NaN and overflow gives NaN, as in XLA.
template <int kExponentBits_, int kMantissaBits_, bool kIeee_>
struct FloatFormat {
  static constexpr int kExponentBits = kExponentBits_;
  static constexpr int kMantissaBits = kMantissaBits_;
  static constexpr bool kIeee = kIeee_;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kMinExponent = 1 - kBias;
  static constexpr int kMaxExponent = kIeee ? kBias : kBias + 1;
  static constexpr int kSignShift = kExponentBits + kMantissaBits;
  static constexpr uint32_t kMagnitudeMask = (1u << kSignShift) - 1;
  // Bits of the largest finite value as f32.
  static constexpr uint32_t kMaxFinite =
      (static_cast<uint32_t>(kMaxExponent + 127) << 23) |
      (((1u << kMantissaBits) - (kIeee ? 1u : 2u)) << (23 - kMantissaBits));
};
using FormatF16 = FloatFormat<5, 10, true>;
using FormatE5M2 = FloatFormat<5, 2, true>;
using FormatE4M3 = FloatFormat<4, 3, true>;
using FormatE4M3Fn = FloatFormat<4, 3, false>;

// x rounded to a format with `mantissa_bits` and exponents min_exponent.., overflow not handled.
// Adding and subtracting 1.5 * 2^(23 + e - mantissa_bits) leaves a multiple of the format's unit.
ONRT_SCALAR float round_mantissa(float x, int32_t mantissa_bits, int32_t min_exponent,
                                 int32_t max_exponent) {
  const uint32_t magnitude = float_bits(x) & 0x7fffffffu;
  int32_t exponent = static_cast<int32_t>(magnitude >> 23) - 127;
  exponent = exponent < min_exponent ? min_exponent : exponent;
  exponent = exponent > max_exponent + 1 ? max_exponent + 1 : exponent;
  const float big =
      bits_float((static_cast<uint32_t>(exponent - mantissa_bits + 23 + 127) << 23) | 0x400000u);
  const float a = bits_float(magnitude);
  return with_sign_of((a + big) - big, x);
}

template <class Format>
ONRT_SCALAR float round_to_format(float x) {
  const float r =
      round_mantissa(x, Format::kMantissaBits, Format::kMinExponent, Format::kMaxExponent);
  const float overflow = Format::kIeee ? kInfinity : kQuietNan;
  const bool fits = (float_bits(r) & 0x7fffffffu) <= Format::kMaxFinite &&
                    (float_bits(x) & 0x7fffffffu) < 0x7f800000u;
  const float special = x != x ? kQuietNan : overflow;
  return fits ? r : with_sign_of(special, x);
}

// x is already a value of the format.
template <class Format>
ONRT_SCALAR uint32_t pack_format(float x) {
  constexpr int kShift = 23 - Format::kMantissaBits;
  const uint32_t bits = float_bits(x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal =
      (magnitude >> kShift) - (static_cast<uint32_t>(127 - Format::kBias) << Format::kMantissaBits);
  // Denormals: |x| is a multiple of 2^(min exponent - mantissa bits); adding 2^23 of these units
  // leaves the count in the low bits.
  constexpr uint32_t kUnit =
      static_cast<uint32_t>(Format::kMinExponent - Format::kMantissaBits + 23 + 127) << 23;
  const uint32_t denormal = float_bits(bits_float(magnitude) + bits_float(kUnit)) - kUnit;
  constexpr uint32_t kFirstNormal = static_cast<uint32_t>(Format::kMinExponent + 127) << 23;
  constexpr uint32_t kInf = ((1u << Format::kExponentBits) - 1) << Format::kMantissaBits;
  constexpr uint32_t kNan =
      Format::kIeee ? kInf | (1u << (Format::kMantissaBits - 1)) : Format::kMagnitudeMask;
  uint32_t code = magnitude < kFirstNormal ? denormal : normal;
  code = magnitude == 0x7f800000u ? (Format::kIeee ? kInf : kNan) : code;
  code = magnitude > 0x7f800000u ? kNan : code;
  return code | ((bits >> 31) << Format::kSignShift);
}

template <class Format>
ONRT_SCALAR float unpack_format(uint32_t code) {
  constexpr int kShift = 23 - Format::kMantissaBits;
  const uint32_t magnitude = code & Format::kMagnitudeMask;
  const uint32_t sign = ((code >> Format::kSignShift) & 1u) << 31;
  // Denormals: (magnitude | 2^23 as f32 bits) - 2^23 counts units; normals: rebias.
  constexpr uint32_t kUnit =
      static_cast<uint32_t>(Format::kMinExponent - Format::kMantissaBits + 23 + 127) << 23;
  const uint32_t denormal = float_bits(bits_float(kUnit | magnitude) - bits_float(kUnit));
  const uint32_t normal =
      (magnitude << kShift) + (static_cast<uint32_t>(127 - Format::kBias) << 23);
  constexpr uint32_t kFirstNormal = 1u << Format::kMantissaBits;
  constexpr uint32_t kInf = ((1u << Format::kExponentBits) - 1) << Format::kMantissaBits;
  uint32_t bits = magnitude < kFirstNormal ? denormal : normal;
  if constexpr (Format::kIeee) {
    bits = magnitude >= kInf ? 0x7f800000u | (magnitude << kShift) : bits;
  } else {
    bits = magnitude == Format::kMagnitudeMask ? 0x7fc00000u : bits;
  }
  return bits_float(bits | sign);
}

ONRT_SCALAR float round_to_bf16(float x) {
  const uint32_t bits = float_bits(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  const uint32_t nan = (bits | 0x00400000u) & 0xffff0000u;
  return bits_float((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}
ONRT_SCALAR uint16_t pack_bf16(float x) { return static_cast<uint16_t>(float_bits(x) >> 16); }
ONRT_SCALAR float unpack_bf16(uint16_t x) { return bits_float(static_cast<uint32_t>(x) << 16); }

// HLO reduce-precision: exponent and mantissa widths chosen at run time; denormals of the narrow
// format become zero, as in XLA.
ONRT_SCALAR float reduce_precision(float x, int32_t exponent_bits, int32_t mantissa_bits) {
  const uint32_t bits = float_bits(x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const int32_t dropped = 23 - mantissa_bits;
  const uint32_t last = dropped > 0 ? (bits >> (dropped & 31)) & 1u : 0u;
  const uint32_t half = dropped > 0 ? (1u << ((dropped - 1) & 31)) - 1u + last : 0u;
  const uint32_t mask = dropped > 0 ? ~((1u << (dropped & 31)) - 1u) : ~0u;
  const uint32_t rounded = (magnitude + half) & mask;
  const int32_t bias = (1 << ((exponent_bits - 1) & 31)) - 1;
  const uint32_t max_exponent = static_cast<uint32_t>(127 + bias) << 23;
  const uint32_t min_exponent = static_cast<uint32_t>(127 - bias) << 23;
  uint32_t r = rounded;
  if (exponent_bits < 8) {
    r = (rounded & 0x7f800000u) > max_exponent ? 0x7f800000u : r;
    r = (rounded & 0x7f800000u) <= min_exponent ? 0u : r;
  }
  r = magnitude > 0x7f800000u ? magnitude | 0x400000u : r;
  r = magnitude == 0x7f800000u ? magnitude : r;
  return bits_float(r | (bits & 0x80000000u));
}

}  // namespace onrt::ncx
