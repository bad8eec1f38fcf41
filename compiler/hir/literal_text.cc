// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <charconv>
#include <cstring>

#include "compiler/hir/text.h"
#include "runtime/base/format.h"
#include "runtime/base/small_float.h"

namespace onrt::hir {
namespace {

uint64_t load_bits(Dtype dtype, const std::byte* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, dtype_bytes(dtype));
  return bits;
}

// Exact but for the payload of a NaN.
double to_double(Dtype dtype, uint64_t bits) {
  switch (dtype) {
    case Dtype::kF64:
      return std::bit_cast<double>(bits);
    case Dtype::kF32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case Dtype::kBF16:
      return Bf16::to_f32(static_cast<uint16_t>(bits));
    case Dtype::kF16:
      return F16::to_f32(static_cast<uint16_t>(bits));
    case Dtype::kF8E5M2:
      return F8E5M2::to_f32(static_cast<uint8_t>(bits));
    case Dtype::kF8E4M3:
      return F8E4M3::to_f32(static_cast<uint8_t>(bits));
    default:
      return F8E4M3Fn::to_f32(static_cast<uint8_t>(bits));
  }
}

uint64_t from_f32(Dtype dtype, float value) {
  switch (dtype) {
    case Dtype::kF32:
      return std::bit_cast<uint32_t>(value);
    case Dtype::kBF16:
      return Bf16::from_f32(value);
    case Dtype::kF16:
      return F16::from_f32(value);
    case Dtype::kF8E5M2:
      return F8E5M2::from_f32(value);
    case Dtype::kF8E4M3:
      return F8E4M3::from_f32(value);
    default:
      return F8E4M3Fn::from_f32(value);
  }
}

template <class T>
bool read_number(std::string_view text, T& value, int base = 10) {
  const char* end = text.data() + text.size();
  std::from_chars_result result{};
  if constexpr (std::is_floating_point_v<T>) {
    result = std::from_chars(text.data(), end, value);
  } else {
    result = std::from_chars(text.data(), end, value, base);
  }
  return result.ec == std::errc() && result.ptr == end;
}

bool parse_float_bits(Dtype dtype, std::string_view text, uint64_t& bits) {
  if (dtype == Dtype::kF64) {
    double value = 0;
    const bool ok = read_number(text, value);
    bits = std::bit_cast<uint64_t>(value);
    return ok;
  }
  float value = 0;
  const bool ok = read_number(text, value);
  bits = from_f32(dtype, value);
  return ok;
}

bool parse_integer_bits(Dtype dtype, std::string_view text, uint64_t& bits) {
  const uint32_t width = dtype_bytes(dtype) * 8;
  if (is_signed_integer(dtype)) {
    int64_t value = 0;
    const bool ok = read_number(text, value);
    bits = static_cast<uint64_t>(value);
    return ok && (width == 64 || (value >> (width - 1)) == 0 || (value >> (width - 1)) == -1);
  }
  const uint64_t limit = dtype == Dtype::kPred ? 1
                         : width == 64         ? ~uint64_t{0}
                                               : (uint64_t{1} << width) - 1;
  return read_number(text, bits) && bits <= limit;
}

}  // namespace

std::string element_text(Dtype dtype, const std::byte* element) {
  const uint64_t bits = load_bits(dtype, element);
  if (!is_floating(dtype)) {
    if (!is_signed_integer(dtype)) {
      return std::to_string(bits);
    }
    const uint32_t unused = 64 - dtype_bytes(dtype) * 8;
    return std::to_string(static_cast<int64_t>(bits << unused) >> unused);
  }
  const double value = to_double(dtype, bits);
  if (value != value) {
    return format("0x{:x}", bits);
  }
  char text[64];
  const auto result = dtype == Dtype::kF64
                          ? std::to_chars(text, text + sizeof(text), value)
                          : std::to_chars(text, text + sizeof(text), static_cast<float>(value));
  return {text, result.ptr};
}

bool parse_element(Dtype dtype, std::string_view text, std::byte* element) {
  uint64_t bits = 0;
  const uint32_t bytes = dtype_bytes(dtype);
  bool ok = false;
  if (text.starts_with("0x")) {
    ok = dtype != Dtype::kPred && read_number(text.substr(2), bits, 16) &&
         (bytes == 8 || bits >> (bytes * 8) == 0);
  } else {
    ok = is_floating(dtype) ? parse_float_bits(dtype, text, bits)
                            : parse_integer_bits(dtype, text, bits);
  }
  if (ok) {
    std::memcpy(element, &bits, bytes);
  }
  return ok;
}

}  // namespace onrt::hir
