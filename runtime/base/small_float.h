// SPDX-License-Identifier: Apache-2.0
// The 16- and 8-bit floating types: exact to f32, and from f32 rounded to nearest even.
//
// Formats: bf16 and f16 (IEEE 754 binary16), and the 8-bit types as XLA and ml_dtypes name them:
// f8e5m2 and f8e4m3 follow IEEE 754 (infinities, NaN = all exponent bits and a mantissa);
// f8e4m3fn has no infinity, its only NaN is 0x7f, and values that round beyond 448 become NaN.
// A NaN becomes the quiet NaN of its sign.
#pragma once

#include <bit>
#include <cstdint>

namespace onrt {

enum class FloatRange : uint8_t { kIeee, kFinite };

// `Bits` is the storage; sign, then kExponent bits, then kMantissa bits. Default rounding mode and
// gradual underflow are assumed.
template <class Bits, int kExponent, int kMantissa, FloatRange kRange = FloatRange::kIeee>
struct SmallFloat {
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr uint32_t kExponentMask = ((1u << kExponent) - 1) << kMantissa;
  static constexpr uint32_t kSignShift = kExponent + kMantissa;
  static constexpr int kDrop = 23 - kMantissa;
  static constexpr uint32_t kLargest =
      kRange == FloatRange::kIeee ? kExponentMask - 1 : (1u << kSignShift) - 2;
  static constexpr uint32_t kNan = kRange == FloatRange::kIeee
                                       ? kExponentMask | (1u << (kMantissa - 1))
                                       : (1u << kSignShift) - 1;
  static constexpr uint32_t kOverflow = kRange == FloatRange::kIeee ? kExponentMask : kNan;

  static constexpr Bits from_f32(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 31 << kSignShift;
    const uint32_t magnitude = bits & 0x7fffffffu;
    return static_cast<Bits>(sign | round_magnitude(magnitude));
  }

  static constexpr float to_f32(Bits value) {
    const uint32_t sign = (static_cast<uint32_t>(value) >> kSignShift & 1u) << 31;
    const uint32_t magnitude = value & ((1u << kSignShift) - 1);
    return std::bit_cast<float>(sign | expand_magnitude(magnitude));
  }

 private:
  static constexpr uint32_t round_magnitude(uint32_t magnitude) {
    if (magnitude > 0x7f800000u) {
      return kNan;
    }
    if constexpr (kExponent < 8) {
      if (magnitude < static_cast<uint32_t>(127 - kBias + 1) << 23) {
        // Below the smallest normal number: add a power of two whose last bit is worth the type's
        // smallest step, and the addition rounds.
        constexpr uint32_t kMagic = static_cast<uint32_t>(127 + 1 - kBias - kMantissa + 23) << 23;
        return std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) +
                                       std::bit_cast<float>(kMagic)) -
               kMagic;
      }
    }
    const uint32_t half = (1u << (kDrop - 1)) - 1 + (magnitude >> kDrop & 1u);
    const uint32_t rounded =
        (magnitude + half - (static_cast<uint32_t>(127 - kBias) << 23)) >> kDrop;
    return rounded > kLargest ? kOverflow : rounded;
  }

  static constexpr uint32_t expand_magnitude(uint32_t magnitude) {
    if (kRange == FloatRange::kIeee ? magnitude >= kExponentMask : magnitude == kNan) {
      return magnitude == kOverflow && kRange == FloatRange::kIeee
                 ? 0x7f800000u
                 : 0x7fc00000u | (magnitude << kDrop & 0x7fffffu);
    }
    if constexpr (kExponent < 8) {
      if (magnitude < 1u << kMantissa) {
        constexpr uint32_t kStep = static_cast<uint32_t>(127 + 1 - kBias - kMantissa) << 23;
        return std::bit_cast<uint32_t>(static_cast<float>(magnitude) * std::bit_cast<float>(kStep));
      }
    }
    return (magnitude << kDrop) + (static_cast<uint32_t>(127 - kBias) << 23);
  }
};

using Bf16 = SmallFloat<uint16_t, 8, 7>;
using F16 = SmallFloat<uint16_t, 5, 10>;
using F8E5M2 = SmallFloat<uint8_t, 5, 2>;
using F8E4M3 = SmallFloat<uint8_t, 4, 3>;
using F8E4M3Fn = SmallFloat<uint8_t, 4, 3, FloatRange::kFinite>;

}  // namespace onrt
