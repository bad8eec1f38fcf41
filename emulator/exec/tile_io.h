// SPDX-License-Identifier: Apache-2.0
// Rectangular tiles of an iteration space with an outer and an inner loop nest: for reductions,
// where one nest is kept and the other reduced.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/exec/kernels/kernels.h"
#include "emulator/exec/layout.h"

namespace onrt {

// The elements (outer index in [outer, outer + outer_count)) x (inner index in [inner, inner +
// inner_count)), both row-major over their nest; in a buffer they lie dense, outer first. All views
// have strides in both nests. Made per chunk of work; seek() to a tile, then load or store.
class TileCursor {
 public:
  TileCursor(const LoopNest& outer, const LoopNest& inner) : outer_(outer), inner_(inner) {}

  void seek(int64_t outer, int64_t outer_count, int64_t inner, int64_t inner_count);
  size_t size() const { return static_cast<size_t>(outer_count_ * inner_count_); }

  // Address of the first element, for views that the tile reads without gaps.
  std::byte* address(size_t view, std::byte* base, int64_t width) const;

  void load(size_t view, const std::byte* base, const KernelTable& kernels, Dtype dtype,
            void* out) const;
  void store(size_t view, std::byte* base, const KernelTable& kernels, Dtype dtype,
             const void* in) const;
  // Offsets of a pseudo-view: its strides are the values of an iota.
  void count(size_t view, int64_t* out) const;

 private:
  // Calls segment(offset, position, count) for runs along the inner nest's innermost loop.
  template <class Segment>
  void for_segments(size_t view, const Segment& segment) const;

  const LoopNest& outer_;
  const LoopNest& inner_;
  int64_t outer_at_ = 0;
  int64_t outer_count_ = 0;
  int64_t inner_at_ = 0;
  int64_t inner_count_ = 0;
};

// Position in a nest that advances by one, with the offset of one view.
class NestIndex {
 public:
  NestIndex(const LoopNest& nest, size_t view, int64_t start);
  int64_t offset() const { return offset_; }
  int64_t left_in_row() const { return nest_.inner() - index_[nest_.rank - 1]; }
  void advance(int64_t count);  // count <= left_in_row()

 private:
  const LoopNest& nest_;
  size_t view_;
  int64_t index_[ncx::kMaxRank];
  int64_t offset_ = 0;
};

}  // namespace onrt
