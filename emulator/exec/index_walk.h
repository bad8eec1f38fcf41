// SPDX-License-Identifier: Apache-2.0
// Shared by gather, scatter and dynamic slices: reading index vectors and walking plain loops.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "emulator/isa/program.h"

namespace onrt {

// An integer element as a signed 64-bit index; u64 values beyond it become the largest index.
int64_t load_index(Dtype dtype, const std::byte* memory);

// Indices of an N-d loop in row-major order.
class IndexLoop {
 public:
  // Starts at linear position `start`.
  IndexLoop(std::span<const int64_t> dims, int64_t start);
  const int64_t* index() const { return index_.data(); }
  void advance();

 private:
  std::span<const int64_t> dims_;
  std::array<int64_t, ncx::kMaxRank> index_{};
};

inline int64_t clamp_index(int64_t index, int64_t most) {
  return index < 0 ? 0 : (index > most ? most : index);
}

// Product of dims.
int64_t count_of(std::span<const int64_t> dims);

}  // namespace onrt
