// SPDX-License-Identifier: Apache-2.0
// Elementary functions in f32, at most 2 units in the last place from the exact value; the test
// compares with libm. Only IEEE operations without contraction, so the bits are the same
// everywhere. Those marked [f64] work in double inside, which is accurate without special care.
//
// Methods: argument reduction and polynomials as in textbooks (Cody & Waite; Muller, "Elementary
// Functions"). Coefficients: log from Sun's fdlibm logf, exp and tanh from Cephes (Moshier), erf
// fitted for this file (Lawson's minimax iteration, 3e-11), the [f64] ones are Taylor series.
#pragma once

#include <cstdint>

#include "emulator/isa/scalar_float.h"

namespace onrt::ncx {

ONRT_SCALAR float square_root(float x) { return __builtin_sqrtf(x); }

// ---- exp, log and what is made of them ----------------------------------------------------------

ONRT_SCALAR float exp_f32(float x) {
  float c = x > 89.0f ? 89.0f : x;
  c = c < -104.0f ? -104.0f : c;
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float t = c * 1.44269504088896341f + kMagic;
  const float n = t - kMagic;
  const int32_t k = static_cast<int32_t>(float_bits(t) - float_bits(kMagic));
  float r = c - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  // Two factors, so that 2^128 and denormal results come out right. k is in [-150, 128] unless x
  // is NaN, where the factors don't matter.
  const uint32_t half = static_cast<uint32_t>(k >> 1);
  const uint32_t rest = static_cast<uint32_t>(k) - half;
  const float y = p * bits_float((half + 127u) << 23) * bits_float((rest + 127u) << 23);
  return x != x ? x : y;
}

ONRT_SCALAR float log_f32(float x) {
  const bool tiny = x < 1.17549435e-38f;  // denormal (or not positive: replaced below)
  const uint32_t bits = float_bits(tiny ? x * 8388608.0f : x);
  const int32_t e = static_cast<int32_t>(bits - 0x3f3504f3u) >> 23;
  const float f = bits_float(bits - (static_cast<uint32_t>(e) << 23)) - 1.0f;
  const float k = static_cast<float>(e - (tiny ? 23 : 0));
  const float s = f / (2.0f + f);
  const float z = s * s;
  const float w = z * z;
  const float t1 = w * (0.40000972152f + w * 0.24279078841f);
  const float t2 = z * (0.66666662693f + w * 0.28498786688f);
  const float hfsq = 0.5f * f * f;
  const float y = s * (hfsq + (t2 + t1)) + k * 9.0580006145e-06f - hfsq + f + k * 6.9313812256e-01f;
  const float special = x == 0.0f ? -kInfinity : (x > 0.0f || x != x ? x : kQuietNan);
  return x > 0.0f && x < kInfinity ? y : special;
}

ONRT_SCALAR float logistic_f32(float x) {
  const float e = exp_f32(-abs_float(x));
  const float y = (x < 0.0f ? e : 1.0f) / (1.0f + e);
  return x != x ? x : y;
}

ONRT_SCALAR float tanh_f32(float x) {
  const float a = abs_float(x);
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z + -5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z + -3.33332819422e-1f;
  const float small = p * z * x + x;
  const float clamped = a > 20.0f ? 20.0f : a;
  const float large = 1.0f - 2.0f / (exp_f32(clamped + clamped) + 1.0f);
  const float y = a < 0.625f ? small : with_sign_of(large, x);
  return x != x ? x : y;
}

ONRT_SCALAR float erf_f32(float x) {
  const float a = abs_float(x);
  const float z = x * x;
  float s = -9.641515869099846e-06f;
  s = s * z + 0.00011256947830742364f;
  s = s * z + -0.0008482828834218909f;
  s = s * z + 0.005220945432039461f;
  s = s * z + -0.026865400041855742f;
  s = s * z + 0.11283781974099644f;
  s = s * z + -0.37612638434650225f;
  const float small = s * z * x + 0.12837916705802f * x + x;
  const float t = a > 4.0f ? 4.0f : a;
  float g = -7.989324538254578e-07f;  // -log(erfc(t))
  g = g * t + 1.2693509143900587e-05f;
  g = g * t + -6.609278191454954e-05f;
  g = g * t + -9.447535902575262e-05f;
  g = g * t + 0.0033411718198528458f;
  g = g * t + -0.023803773811630558f;
  g = g * t + 0.10692479720609901f;
  g = g * t + 0.6342220879518257f;
  g = g * t + 1.1291933311501385f;
  g = g * t + -0.00012343084245269864f;
  const float large = with_sign_of(1.0f - exp_f32(-g), x);
  const float y = a < 1.0f ? small : large;
  return x != x ? x : y;
}

// [f64] e^x for |x| < 700, 1e-14.
ONRT_SCALAR double exp_f64(double x) {
  double c = x > 700.0 ? 700.0 : x;
  c = c < -700.0 ? -700.0 : c;
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52
  const double t = c * 1.4426950408889634074 + kMagic;
  const double n = t - kMagic;
  const uint64_t k = __builtin_bit_cast(uint64_t, t) - __builtin_bit_cast(uint64_t, kMagic);
  double r = c - n * 6.93147180369123816490e-01;
  r = r - n * 1.90821492927058770002e-10;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return p * __builtin_bit_cast(double, (k + 1023u) << 52);
}

// [f64] log of a positive normal double, 1e-15.
ONRT_SCALAR double log_f64(double x) {
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  const uint64_t shifted = bits - 0x3fe6a09e667f3bcdull;
  // Arithmetic shift by 52 of the high word only: 32-bit lanes vectorise at every level.
  const int32_t e = static_cast<int32_t>(static_cast<uint32_t>(shifted >> 32)) >> 20;
  const double f =
      __builtin_bit_cast(double, bits - (static_cast<uint64_t>(static_cast<int64_t>(e)) << 52)) -
      1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double p = 1.0 / 19.0;
  p = p * z + 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  const double k = e;
  return k * 6.93147180369123816490e-01 +
         (k * 1.90821492927058770002e-10 + 2.0 * s + 2.0 * s * z * p);
}

ONRT_SCALAR float expm1_f32(float x) {  // [f64]
  const double d = x;
  const double big = exp_f64(d > 100.0 ? 100.0 : d) - 1.0;
  const double small = d + d * d * 0.5;
  const float y = static_cast<float>(abs_float(x) < 1e-5f ? small : big);
  return x != x || x == 0.0f ? x : y;
}

ONRT_SCALAR float log1p_f32(float x) {  // [f64]
  const double d = x;
  const double u = 1.0 + d;
  const double big = log_f64(u);
  const double small = d - d * d * (0.5 - d * (1.0 / 3.0));
  const float y = static_cast<float>(abs_float(x) < 1e-4f ? small : big);
  const float special = x == -1.0f ? -kInfinity : (x > -1.0f || x != x ? x : kQuietNan);
  return x > -1.0f && x < kInfinity && x != 0.0f ? y : special;
}

ONRT_SCALAR float cbrt_f32(float x) {  // [f64]
  const float a = abs_float(x);
  const float y = static_cast<float>(exp_f64(log_f64(a) * (1.0 / 3.0)));
  return a > 0.0f && a < kInfinity ? with_sign_of(y, x) : x;
}

ONRT_SCALAR float rsqrt_f32(float x) {  // [f64]
  return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x)));
}

// Conditions as words of 0 or 1 from the bits of non-negative floats (below 2^31). Compilers turn
// chains of float comparisons into branches, which keeps a loop from being vectorised.
ONRT_SCALAR uint32_t bits_zero(uint32_t u) { return ((u - 1u) & ~u) >> 31; }
ONRT_SCALAR uint32_t bits_equal(uint32_t u, uint32_t v) { return bits_zero(u ^ v); }
ONRT_SCALAR uint32_t bits_less(uint32_t u, uint32_t v) { return (u - v) >> 31; }
ONRT_SCALAR uint32_t bits_choose(uint32_t condition, uint32_t yes, uint32_t no) {
  return (yes & (0u - condition)) | (no & (condition - 1u));
}

// C's pow: 1 for x^0 and 1^y even with NaN; NaN for a negative base and a fraction.
ONRT_SCALAR float power_f32(float x, float y) {  // [f64]
  constexpr uint32_t kInf = 0x7f800000u;
  constexpr uint32_t kOne = 0x3f800000u;
  const uint32_t a = float_bits(x) & 0x7fffffffu;
  const uint32_t b = float_bits(y) & 0x7fffffffu;
  const float magnitude = bits_float(b);
  const float half = magnitude * 0.5f;
  const float rounded = (magnitude + 8388608.0f) - 8388608.0f;  // for |y| < 2^23
  const float half_rounded = (half + 8388608.0f) - 8388608.0f;
  const uint32_t integer = (1u ^ bits_less(b, 0x4b000000u)) | bits_equal(float_bits(rounded), b);
  const uint32_t odd = integer & (1u ^ bits_equal(float_bits(half_rounded), float_bits(half))) &
                       bits_less(b, 0x4b800000u);
  const uint32_t finite = bits_less(a, kInf) & (1u ^ bits_zero(a));
  const double base = bits_float(bits_choose(finite, a, kOne));
  const float z = static_cast<float>(exp_f64(log_f64(base) * static_cast<double>(y)));
  const uint32_t positive = 1u ^ (float_bits(y) >> 31);  // y = 0 is replaced below
  // |x| is 0 or infinite: 0^y = 0 or, for negative y, infinite; the other way round for infinity.
  uint32_t r =
      bits_choose(finite, float_bits(z), bits_choose(bits_equal(a, kInf) ^ positive, 0u, kInf));
  const uint32_t at_infinity = bits_choose(bits_less(kOne, a) ^ positive, 0u, kInf);
  r = bits_choose(bits_equal(b, kInf), bits_choose(bits_equal(a, kOne), kOne, at_infinity), r);
  r ^= odd << 31 & float_bits(x);
  const uint32_t undefined = (float_bits(x) >> 31) & finite & (1u ^ integer) & bits_less(b, kInf);
  r = bits_choose(undefined, 0x7fc00000u, r);
  r = bits_choose(bits_less(kInf, a), float_bits(x), r);
  r = bits_choose(bits_less(kInf, b), float_bits(y), r);
  return bits_float(bits_choose(bits_zero(b) | bits_equal(float_bits(x), kOne), kOne, r));
}

// ---- trigonometry -------------------------------------------------------------------------------

// Below this the [f64] reduction by pi/2 in two parts is accurate; above it a 192-bit one is used.
inline constexpr float kTrigonometryLimit = 1.0e8f;

struct ReducedAngle {
  double r;  // in [-pi/4, pi/4] (a little more by rounding)
  uint32_t quadrant;
};

ONRT_SCALAR ReducedAngle reduce_angle(float x) {
  const double d = x;
  constexpr double kMagic = 6755399441055744.0;
  const double t = d * 6.36619772367581382433e-01 + kMagic;
  const double n = t - kMagic;
  const double r = (d - n * 1.57079631090164184570) - n * 1.58932547735281966916e-8;
  return {r, static_cast<uint32_t>(__builtin_bit_cast(uint64_t, t))};
}

// The same for any |x| >= 2 by Payne & Hanek's method. With x = m * 2^s and 2/pi = sum b_i 2^-i,
// the bits b_i of weight 4 or more contribute multiples of 4 quadrants and are left out; the next
// 128 bits times m, modulo 2^128, are the angle modulo 4 in units of 2^-126 quadrants.
[[maybe_unused]] static inline ReducedAngle reduce_large_angle(float x) {
  constexpr uint32_t kTwoOverPi[] = {0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                     0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};
  const uint32_t bits = float_bits(x);
  const uint32_t exponent = (bits >> 23) & 0xffu;
  if (exponent == 0xff) {
    return {__builtin_nan(""), 0};
  }
  __extension__ using Wide = unsigned __int128;
  const uint32_t first = exponent - 152;  // position of b_(s-1); x >= 1e8 makes it positive
  Wide w = 0;
  for (uint32_t word = 0; word < 4; ++word) {
    const uint32_t at = (first >> 5) + word;
    const uint64_t pair = (static_cast<uint64_t>(kTwoOverPi[at & 7u]) << 32) |
                          (at + 1 < 8 ? kTwoOverPi[(at + 1) & 7u] : 0u);
    w = (w << 32) | static_cast<uint32_t>((pair << (first & 31u)) >> 32);
  }
  const Wide product = w * ((bits & 0x7fffffu) | 0x800000u);
  const uint64_t fraction = static_cast<uint64_t>((product << 2) >> 64);
  // Nearest quadrant: a fraction of one half or more counts as negative.
  uint32_t quadrant = static_cast<uint32_t>(product >> 126) + static_cast<uint32_t>(fraction >> 63);
  double r = static_cast<double>(static_cast<int64_t>(fraction)) * 0x1p-64 * 1.57079632679489661923;
  if (bits >> 31) {
    r = -r;
    quadrant = 0u - quadrant;
  }
  return {r, quadrant};
}

ONRT_SCALAR double sin_kernel(double r) {
  const double z = r * r;
  double p = 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800.0;
  p = p * z + 1.0 / 362880.0;
  p = p * z - 1.0 / 5040.0;
  p = p * z + 1.0 / 120.0;
  p = p * z - 1.0 / 6.0;
  return r + r * z * p;
}
ONRT_SCALAR double cos_kernel(double r) {
  const double z = r * r;
  double p = -1.0 / 87178291200.0;
  p = p * z + 1.0 / 479001600.0;
  p = p * z - 1.0 / 3628800.0;
  p = p * z + 1.0 / 40320.0;
  p = p * z - 1.0 / 720.0;
  p = p * z + 1.0 / 24.0;
  p = p * z - 0.5;
  return 1.0 + z * p;
}

enum class Trigonometric { kSin, kCos, kTan };

template <Trigonometric kFunction>
ONRT_SCALAR float trigonometric_of(ReducedAngle angle) {
  const double s = sin_kernel(angle.r);
  const double c = cos_kernel(angle.r);
  if constexpr (kFunction == Trigonometric::kTan) {
    return static_cast<float>(angle.quadrant & 1u ? -c / s : s / c);
  } else {
    const uint32_t q = angle.quadrant + (kFunction == Trigonometric::kCos ? 1u : 0u);
    const float y = static_cast<float>(q & 1u ? c : s);
    return q & 2u ? -y : y;
  }
}

// Right for |x| < kTrigonometryLimit, free of branches: loops run it on all elements and then
// repair the rare others with trigonometric_f32.
template <Trigonometric kFunction>
ONRT_SCALAR float trigonometric_small(float x) {
  const float y = trigonometric_of<kFunction>(reduce_angle(x));
  return kFunction != Trigonometric::kCos && x == 0.0f ? x : y;
}

template <Trigonometric kFunction>
[[maybe_unused]] static inline float trigonometric_f32(float x) {
  if (abs_float(x) < kTrigonometryLimit) {
    return trigonometric_small<kFunction>(x);
  }
  return trigonometric_of<kFunction>(reduce_large_angle(x));
}

// [f64] atan of q in [0, 1].
ONRT_SCALAR double atan_kernel(double q) {
  const bool upper = q > 0.41421356237309503;
  const double t = upper ? (q - 1.0) / (q + 1.0) : q;
  const double z = t * t;
  double p = 1.0 / 27.0;
  p = 1.0 / 25.0 - z * p;
  p = 1.0 / 23.0 - z * p;
  p = 1.0 / 21.0 - z * p;
  p = 1.0 / 19.0 - z * p;
  p = 1.0 / 17.0 - z * p;
  p = 1.0 / 15.0 - z * p;
  p = 1.0 / 13.0 - z * p;
  p = 1.0 / 11.0 - z * p;
  p = 1.0 / 9.0 - z * p;
  p = 1.0 / 7.0 - z * p;
  p = 1.0 / 5.0 - z * p;
  p = 1.0 / 3.0 - z * p;
  return t - t * z * p + (upper ? 0.78539816339744830962 : 0.0);
}

// [f64] The angle in [0, pi/2] of a point in the first quadrant, not the origin.
ONRT_SCALAR double first_quadrant(double y, double x) {
  const bool swap = y > x;
  const double angle = atan_kernel((swap ? x : y) / (swap ? y : x));
  return swap ? 1.57079632679489661923 - angle : angle;
}

ONRT_SCALAR float atan2_f32(float y, float x) {  // [f64]
  const float ax = abs_float(x);
  const float ay = abs_float(y);
  const bool swap = ay > ax;
  const double high = swap ? ay : ax;
  const double low = swap ? ax : ay;
  const double ratio = low / high;
  const bool both_infinite = low > 3.5e38;
  const double q = both_infinite ? 1.0 : (high == 0.0 ? 0.0 : ratio);
  double angle = atan_kernel(q);
  angle = swap ? 1.57079632679489661923 - angle : angle;
  angle = float_bits(x) >> 31 ? 3.14159265358979323846 - angle : angle;
  const float r = with_sign_of(static_cast<float>(angle), y);
  return x != x ? x : (y != y ? y : r);
}

ONRT_SCALAR float atan_f32(float x) {  // [f64]
  const double a = abs_float(x);
  const double angle = first_quadrant(a > 3.5e38 ? 1.0 : a, a > 3.5e38 ? 0.0 : 1.0);
  return x != x ? x : with_sign_of(static_cast<float>(angle), x);
}

ONRT_SCALAR float asin_f32(float x) {  // [f64]
  const double a = abs_float(x);
  const double inside = a <= 1.0 ? a : 0.0;
  const double other = __builtin_sqrt((1.0 - inside) * (1.0 + inside));
  const float y = with_sign_of(static_cast<float>(first_quadrant(inside, other)), x);
  return x != x ? x : (a <= 1.0 ? y : kQuietNan);
}

ONRT_SCALAR float acos_f32(float x) {  // [f64]
  const double a = abs_float(x);
  const double inside = a <= 1.0 ? a : 0.0;
  const double other = __builtin_sqrt((1.0 - inside) * (1.0 + inside));
  const double angle = first_quadrant(other, inside);
  const double turned = float_bits(x) >> 31 ? 3.14159265358979323846 - angle : angle;
  return x != x ? x : (a <= 1.0 ? static_cast<float>(turned) : kQuietNan);
}

// ---- hyperbolic functions -----------------------------------------------------------------------

ONRT_SCALAR float sinh_f32(float x) {  // [f64]
  const double a = abs_float(x);
  const double e = exp_f64(a);
  const double z = a * a;
  double p = 1.0 / 39916800.0;
  p = p * z + 1.0 / 362880.0;
  p = p * z + 1.0 / 5040.0;
  p = p * z + 1.0 / 120.0;
  p = p * z + 1.0 / 6.0;
  const double y = a < 0.5 ? a + a * z * p : 0.5 * (e - 1.0 / e);
  return x != x ? x : with_sign_of(static_cast<float>(y), x);
}

ONRT_SCALAR float cosh_f32(float x) {  // [f64]
  const double e = exp_f64(abs_float(x));
  return x != x ? x : static_cast<float>(0.5 * (e + 1.0 / e));
}

ONRT_SCALAR float asinh_f32(float x) {  // [f64]
  const double a = abs_float(x);
  const double large = log_f64(a + __builtin_sqrt(a * a + 1.0));
  const float y = static_cast<float>(a < 1e-4 ? a - a * a * a * (1.0 / 6.0) : large);
  return abs_float(x) < kInfinity ? with_sign_of(y, x) : x;
}

ONRT_SCALAR float acosh_f32(float x) {  // [f64]
  const double d = x >= 1.0f && x < kInfinity ? x : 1.0f;
  const float y = static_cast<float>(log_f64(d + __builtin_sqrt((d - 1.0) * (d + 1.0))));
  const float special = x == kInfinity || x != x ? x : kQuietNan;
  return x >= 1.0f && x < kInfinity ? y : special;
}

ONRT_SCALAR float atanh_f32(float x) {  // [f64]
  const double a = abs_float(x);
  const double inside = a < 1.0 ? a : 0.0;
  const double large = 0.5 * log_f64((1.0 + inside) / (1.0 - inside));
  const float y = static_cast<float>(a < 1e-4 ? a + a * a * a * (1.0 / 3.0) : large);
  const float special = a == 1.0 ? kInfinity : kQuietNan;
  return x != x ? x : with_sign_of(a < 1.0 ? y : special, x);
}

}  // namespace onrt::ncx
