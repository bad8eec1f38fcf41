// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/nan_check.h"

#include <cstdint>
#include <cstring>

namespace onrt {
namespace {

// NaN: the bits without the sign lie above those of infinity. For f8e4m3fn, which has no infinity,
// above its largest number.
template <class Bits>
bool any_above(std::span<const std::byte> data, Bits limit) {
  constexpr Bits kWithoutSign = static_cast<Bits>(~Bits{0}) >> 1;
  bool found = false;
  for (size_t at = 0; at + sizeof(Bits) <= data.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, data.data() + at, sizeof bits);
    found |= (bits & kWithoutSign) > limit;
  }
  return found;
}

}  // namespace

bool holds_nan(Dtype dtype, std::span<const std::byte> data) {
  switch (dtype) {
    case Dtype::kF64:
      return any_above<uint64_t>(data, 0x7FF0000000000000);
    case Dtype::kF32:
      return any_above<uint32_t>(data, 0x7F800000);
    case Dtype::kBF16:
      return any_above<uint16_t>(data, 0x7F80);
    case Dtype::kF16:
      return any_above<uint16_t>(data, 0x7C00);
    case Dtype::kF8E5M2:
      return any_above<uint8_t>(data, 0x7C);
    case Dtype::kF8E4M3:
      return any_above<uint8_t>(data, 0x78);
    case Dtype::kF8E4M3FN:
      return any_above<uint8_t>(data, 0x7E);
    default:
      return false;
  }
}

}  // namespace onrt
