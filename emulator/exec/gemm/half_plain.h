// SPDX-License-Identifier: Apache-2.0
// f16 conversions for levels without F16C; the arithmetic is that of SmallFloat in
// runtime/base/small_float.h, kept here because of the rule in kernels.h.
#pragma once

#include "emulator/exec/gemm/kernels.h"

namespace onrt::gemm_detail {
namespace {

inline float half_bits_to_float(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t float_to_half_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

void half_to_f32(const uint16_t* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t magnitude = from[i] & 0x7fffu;
    const uint32_t normal = (magnitude << 13) + (112u << 23);
    const uint32_t special = magnitude << 13 | 0x7f800000u;
    const uint32_t small =
        float_to_half_bits(static_cast<float>(magnitude) * half_bits_to_float(103u << 23));
    const uint32_t value = magnitude >= 0x7c00u ? special : magnitude < 0x400u ? small : normal;
    to[i] = half_bits_to_float(value | (from[i] & 0x8000u) << 16);
  }
}

void f32_to_half(const float* from, int64_t n, uint16_t* to) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = float_to_half_bits(from[i]);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
    const uint32_t small =
        float_to_half_bits(half_bits_to_float(magnitude) + half_bits_to_float(126u << 23)) -
        (126u << 23);
    uint32_t value = magnitude < 113u << 23 ? small : normal > 0x7c00u ? 0x7c00u : normal;
    value = magnitude > 0x7f800000u ? 0x7e00u : value;
    to[i] = static_cast<uint16_t>(value | (bits >> 16 & 0x8000u));
  }
}

}  // namespace
}  // namespace onrt::gemm_detail
