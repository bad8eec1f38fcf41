// SPDX-License-Identifier: Apache-2.0
#include "bench/reduce_peer.h"

#include <bit>

namespace onrt::bench {
namespace {

float widen(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) {
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  }
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

void plain_add_f32(const float* __restrict a, const float* __restrict b, float* __restrict out,
                   size_t n) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = a[i] + b[i];
  }
}

void plain_add_bf16(const uint16_t* __restrict a, const uint16_t* __restrict b,
                    uint16_t* __restrict out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = round_to_bf16(widen(a[i]) + widen(b[i]));
  }
}

}  // namespace onrt::bench
