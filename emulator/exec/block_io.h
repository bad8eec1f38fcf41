// SPDX-License-Identifier: Apache-2.0
// Brings blocks of a loop nest from memory into registers and back, for executors that run
// micro-programs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/exec/executor.h"
#include "emulator/exec/layout.h"
#include "emulator/exec/micro_plan.h"

namespace onrt {

// How a view is reached while a nest is walked in blocks.
enum class Access : uint8_t {
  kDirect,  // kernels work on the memory itself
  kScalar,  // one element for all of the nest: its register is filled once
  kMoved,   // loaded to (stored from) a buffer for each block
};

// Walks the nest in blocks of at most kBlock elements. Rows of kLongRow elements or more are cut
// on their own; shorter ones are put together, a block then is a run of several rows. If a view is
// read across its rows (a transpose), blocks are squares of the two innermost loops, so that a
// cache line is used for several of them.
class BlockWalk {
 public:
  static constexpr int64_t kLongRow = 256;
  static constexpr int64_t kTile = 32;
  static_assert(kTile * kTile <= kBlock);

  // The first `transposable` views may ask for squares.
  explicit BlockWalk(LoopNest nest, size_t transposable = 0);

  const LoopNest& nest() const { return nest_; }
  bool long_rows() const { return long_rows_; }
  bool tiles() const { return tiles_; }
  int64_t units() const { return units_; }

  // A view whose elements lie in the order of the nest without gaps in every block.
  bool contiguous(size_t view) const {
    return !tiles_ && (long_rows_ ? nest_.inner_stride(view) == 1 : linear_[view]);
  }
  bool constant(size_t view) const { return constant_[view]; }
  int64_t tile_columns() const { return tile_columns_; }
  int64_t tile_rows() const { return tile_rows_; }

 private:
  void choose_tiles(size_t transposable);

  LoopNest nest_;
  bool tiles_ = false;
  bool long_rows_ = false;
  int64_t tile_columns_ = 0;  // squares along the innermost loop
  int64_t tile_rows_ = 0;     // and along the second
  int64_t units_;
  std::vector<bool> linear_;
  std::vector<bool> constant_;

 public:
  int64_t blocks_per_row() const { return blocks_per_row_; }

 private:
  int64_t blocks_per_row_ = 1;
};

// The current block of a walk. Made per chunk; seek() to a unit, then load, compute, store.
class BlockCursor {
 public:
  explicit BlockCursor(const BlockWalk& walk) : walk_(walk) {}

  void seek(int64_t unit);
  // Row-major position of the block's first element in the nest.
  int64_t linear() const { return row_ * walk_.nest().inner() + column_; }
  size_t size() const { return static_cast<size_t>(size_); }

  // Address of the block's first element of a contiguous view.
  std::byte* address(size_t view, std::byte* base, int64_t width) const {
    return base + offset(view) * width;
  }
  void load(size_t view, const std::byte* base, const KernelTable& kernels, Dtype dtype,
            void* out) const;
  void store(size_t view, std::byte* base, const KernelTable& kernels, Dtype dtype,
             const void* in) const;
  // The nest's pseudo-view `view` holds an iota: its offsets are its values.
  void count(size_t view, int64_t* out) const;

 private:
  int64_t offset(size_t view) const {
    return offsets_[view] + column_ * walk_.nest().inner_stride(view);
  }
  template <class Segment>
  void for_segments(size_t view, const Segment& segment) const;

  const BlockWalk& walk_;
  int64_t row_ = -1;  // of squares: the first
  int64_t column_ = 0;
  int64_t rows_ = 0;  // of a square
  int64_t columns_ = 0;
  int64_t size_ = 0;
  int64_t offsets_[ncx::kMaxMicroInputs + ncx::kMaxOutputs + ncx::kMaxMicroOps + 2];
};

// Element at `memory` as the 64 bits of a fill kernel's immediate.
uint64_t load_immediate(const KernelTable& kernels, Dtype dtype, const std::byte* memory);

}  // namespace onrt
