// SPDX-License-Identifier: Apache-2.0
// Data of a check: what each rank puts in, and what must come out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/nccom_test/options.h"

namespace onrt::tools::nccom {

// `count` elements of the input of `rank`, from element `first` on. Random values are a function of
// (seed, rank, position) alone, so that every rank knows what the others put in: integers of the
// whole range, floats in [-1, 1).
void fill_input(const Series& series, uint64_t seed, int rank, uint64_t first,
                std::span<std::byte> out);

struct FloatType;

// What a sum over `ranks` ranks must give, and how far off an element may be: half a step of the
// type plus what adding in f32 in another order can change (Higham, "Accuracy and Stability of
// Numerical Algorithms", 4.2). Integers: exactly equal, modulo their range.
class ExpectedSum {
 public:
  ExpectedSum(const Series& series, uint64_t seed, const std::vector<int>& ranks, uint64_t first,
              uint64_t count);
  // Index of the first element that is wrong, or `count`.
  uint64_t first_wrong(std::span<const std::byte> result) const;
  // As elements of the type, for the files of a failed check.
  std::vector<std::byte> golden() const;

 private:
  bool is_near(const FloatType& type, float got, uint64_t index) const;

  const TypeRow type_;
  std::vector<double> sums_;
  std::vector<double> tolerances_;
  std::vector<uint32_t> integers_;
};

// Text of one element, for messages.
std::string element_text(const TypeRow& type, std::span<const std::byte> data, uint64_t index);

// Ours of the same outputs on all ranks.
uint64_t digest_of(std::span<const std::byte> data);

}  // namespace onrt::tools::nccom
