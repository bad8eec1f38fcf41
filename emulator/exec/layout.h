// SPDX-License-Identifier: Apache-2.0
// Iteration over several strided views at once: as few and as long loops as possible.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/isa/program.h"

namespace onrt {

using Strides = std::array<int64_t, ncx::kMaxRank>;

// Loops from the outermost to the innermost; at least one. Strides count elements of each view.
struct LoopNest {
  int rank = 1;
  std::array<int64_t, ncx::kMaxRank> dims{1};
  std::vector<Strides> strides;  // by view
  int64_t elements = 1;

  int64_t inner() const { return dims[static_cast<size_t>(rank - 1)]; }
  int64_t inner_stride(size_t view) const { return strides[view][static_cast<size_t>(rank - 1)]; }
};

enum class LoopOrder {
  kFree,  // loops may be exchanged: the last view given is walked as contiguously as possible
  kKept,  // row-major order of the domain
};

// Loops over `dims` for views with these strides. Drops dims of size 1 and merges neighbours.
LoopNest make_nest(std::span<const int64_t> dims, std::span<const Strides> strides,
                   LoopOrder order);

// Offset in elements of the first element of row `row` (all loops but the innermost).
int64_t row_offset(const LoopNest& nest, size_t view, int64_t row);

// Offsets of all views for one row at once.
void row_offsets(const LoopNest& nest, int64_t row, int64_t* offsets);

}  // namespace onrt
