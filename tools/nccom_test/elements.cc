// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom_test/elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "runtime/base/format.h"
#include "runtime/base/small_float.h"

namespace onrt::tools::nccom {

// Of a floating type: bits of the significand, exponent of the smallest step, and conversions.
struct FloatType {
  const char* name;
  int significand;
  int smallest;
  float (*decode)(const std::byte* from);
  void (*encode)(float value, std::byte* to);
};

namespace {

template <class Format, class Bits>
constexpr FloatType float_type(const char* name, int significand, int smallest) {
  return {name, significand, smallest,
          [](const std::byte* from) {
            Bits bits;
            std::memcpy(&bits, from, sizeof(bits));
            return Format::to_f32(bits);
          },
          [](float value, std::byte* to) {
            const Bits bits = Format::from_f32(value);
            std::memcpy(to, &bits, sizeof(bits));
          }};
}

const FloatType kFloats[] = {
    {"fp32", 24, -149,
     [](const std::byte* from) {
       float value;
       std::memcpy(&value, from, sizeof(value));
       return value;
     },
     [](float value, std::byte* to) { std::memcpy(to, &value, sizeof(value)); }},
    float_type<Bf16, uint16_t>("bf16", 8, -133),
    float_type<F16, uint16_t>("fp16", 11, -24),
    float_type<F8E4M3, uint8_t>("fp8", 4, -9),
};

// Null for integers.
const FloatType* float_of(const TypeRow& type) {
  for (const FloatType& row : kFloats) {
    if (std::string_view(type.name) == row.name) {
      return &row;
    }
  }
  return nullptr;
}

// SplitMix64 (Steele, Lea, Flood 2014): a good 64-bit hash of its argument.
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t random_bits(uint64_t seed, int rank, uint64_t position) {
  return mixed(mixed(seed + static_cast<uint64_t>(rank) * 0x2545f4914f6cdd1d) ^ position);
}

uint32_t random_integer(const Series& series, uint64_t seed, int rank, uint64_t position) {
  const uint64_t bits = random_bits(seed, rank, position);
  return static_cast<uint32_t>(
      bits & (series.type.bytes == 4 ? 0xffffffffULL : (1ULL << (8 * series.type.bytes)) - 1));
}

// Rounded to the type: what the rank really puts in.
float random_float(const FloatType& type, uint64_t seed, int rank, uint64_t position) {
  const auto value = static_cast<float>(
      static_cast<double>(random_bits(seed, rank, position) >> 40) / (1 << 23) - 1.0);
  std::byte bytes[4] = {};
  type.encode(value, bytes);
  return type.decode(bytes);
}

uint32_t integer_at(const TypeRow& type, const std::byte* from) {
  uint32_t value = 0;
  std::memcpy(&value, from, type.bytes);
  return value;
}

}  // namespace

void fill_input(const Series& series, uint64_t seed, int rank, uint64_t first,
                std::span<std::byte> out) {
  const FloatType* const floating = float_of(series.type);
  const uint64_t bytes = series.type.bytes;
  for (uint64_t i = 0; i < out.size() / bytes; ++i) {
    std::byte* const to = out.data() + i * bytes;
    if (series.check == Check::kNone) {
      std::memset(to, 0, bytes);
    } else if (floating != nullptr) {
      const bool ones = series.check == Check::kAllOnes;
      floating->encode(ones ? 1.0F : random_float(*floating, seed, rank, first + i), to);
    } else {
      const uint32_t value =
          series.check == Check::kAllOnes ? 1 : random_integer(series, seed, rank, first + i);
      std::memcpy(to, &value, bytes);
    }
  }
}

ExpectedSum::ExpectedSum(const Series& series, uint64_t seed, const std::vector<int>& ranks,
                         uint64_t first, uint64_t count)
    : type_(series.type) {
  const FloatType* const floating = float_of(type_);
  const bool ones = series.check == Check::kAllOnes;
  for (uint64_t i = 0; i < count; ++i) {
    if (floating == nullptr) {
      uint32_t sum = 0;
      for (const int rank : ranks) {
        sum += ones ? 1 : random_integer(series, seed, rank, first + i);
      }
      integers_.push_back(sum);
      continue;
    }
    double sum = 0;
    double magnitudes = 0;
    for (const int rank : ranks) {
      const double value = ones ? 1.0 : random_float(*floating, seed, rank, first + i);
      sum += value;
      magnitudes += std::abs(value);
    }
    const double step = std::ldexp(std::abs(sum) + magnitudes * 0x1p-20, -floating->significand);
    const double adding = static_cast<double>(ranks.size()) * 0x1p-24 * magnitudes;
    sums_.push_back(sum);
    tolerances_.push_back(1.01 * (step + adding) + std::ldexp(1.0, floating->smallest - 1));
  }
}

uint64_t ExpectedSum::first_wrong(std::span<const std::byte> result) const {
  const FloatType* const floating = float_of(type_);
  const uint64_t count = std::max(sums_.size(), integers_.size());
  const uint32_t mask = type_.bytes == 4 ? ~0U : (1U << (8 * type_.bytes)) - 1;
  for (uint64_t i = 0; i < count; ++i) {
    const std::byte* const at = result.data() + i * type_.bytes;
    const bool right = floating == nullptr ? integer_at(type_, at) == (integers_[i] & mask)
                                           : is_near(*floating, floating->decode(at), i);
    if (!right) {
      return i;
    }
  }
  return count;
}

bool ExpectedSum::is_near(const FloatType& type, float got, uint64_t i) const {
  std::byte bytes[4] = {};
  type.encode(static_cast<float>(sums_[i]), bytes);
  if (!std::isfinite(type.decode(bytes))) {
    return !std::isfinite(got);  // beyond the type's range
  }
  return std::abs(static_cast<double>(got) - sums_[i]) <= tolerances_[i];
}

std::vector<std::byte> ExpectedSum::golden() const {
  const FloatType* const floating = float_of(type_);
  const uint64_t count = std::max(sums_.size(), integers_.size());
  std::vector<std::byte> data(count * type_.bytes);
  for (uint64_t i = 0; i < count; ++i) {
    std::byte* const to = data.data() + i * type_.bytes;
    if (floating != nullptr) {
      floating->encode(static_cast<float>(sums_[i]), to);
    } else {
      std::memcpy(to, &integers_[i], type_.bytes);
    }
  }
  return data;
}

std::string element_text(const TypeRow& type, std::span<const std::byte> data, uint64_t index) {
  const std::byte* const at = data.data() + index * type.bytes;
  if (const FloatType* const floating = float_of(type)) {
    return format("{}", floating->decode(at));
  }
  const uint32_t value = integer_at(type, at);
  if (type.name[0] == 'u') {
    return format("{}", value);
  }
  const int shift = 32 - 8 * static_cast<int>(type.bytes);
  return format("{}", static_cast<int32_t>(value << shift) >> shift);
}

uint64_t digest_of(std::span<const std::byte> data) {
  uint64_t hash = data.size();
  size_t i = 0;
  for (; i + 8 <= data.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data.data() + i, 8);
    hash = mixed(hash ^ word);
  }
  for (; i < data.size(); ++i) {
    hash = mixed(hash ^ static_cast<uint64_t>(data[i]));
  }
  return hash;
}

}  // namespace onrt::tools::nccom
