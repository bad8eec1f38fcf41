// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/block_io.h"

#include "emulator/exec/segments.h"

namespace onrt {
namespace {

size_t index_of(Dtype dtype) { return static_cast<size_t>(dtype); }

bool is_linear(const LoopNest& nest, size_t view) {
  int64_t want = 1;
  for (int d = nest.rank - 1; d >= 0; --d) {
    if (nest.strides[view][static_cast<size_t>(d)] != want) {
      return false;
    }
    want *= nest.dims[static_cast<size_t>(d)];
  }
  return true;
}

bool is_constant(const LoopNest& nest, size_t view) {
  for (int d = 0; d < nest.rank; ++d) {
    if (nest.strides[view][static_cast<size_t>(d)] != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

BlockWalk::BlockWalk(LoopNest nest, size_t transposable) : nest_(std::move(nest)) {
  choose_tiles(transposable);
  long_rows_ = !tiles_ && (nest_.rank == 1 || nest_.inner() >= kLongRow);
  if (tiles_) {
    const int64_t rows = nest_.dims[static_cast<size_t>(nest_.rank - 2)];
    tile_rows_ = (rows + kTile - 1) / kTile;
    tile_columns_ = (nest_.inner() + kTile - 1) / kTile;
    units_ = nest_.elements / (rows * nest_.inner()) * tile_rows_ * tile_columns_;
  } else if (long_rows_) {
    blocks_per_row_ = (nest_.inner() + kBlock - 1) / kBlock;
    units_ = nest_.elements / std::max<int64_t>(nest_.inner(), 1) * blocks_per_row_;
  } else {
    units_ = (nest_.elements + kBlock - 1) / kBlock;
  }
  for (size_t view = 0; view < nest_.strides.size(); ++view) {
    linear_.push_back(is_linear(nest_, view));
    constant_.push_back(is_constant(nest_, view));
  }
}

// Looks for a view that is contiguous along another loop than the innermost; that loop becomes the
// second innermost.
void BlockWalk::choose_tiles(size_t transposable) {
  constexpr int64_t kLeast = 8;
  if (nest_.rank < 2 || nest_.elements < 4 * kBlock || nest_.inner() < kLeast) {
    return;
  }
  for (size_t view = 0; view < transposable; ++view) {
    const int64_t inner = nest_.inner_stride(view);
    for (int d = nest_.rank - 2; d >= 0 && inner != 0 && inner != 1; --d) {
      if (nest_.strides[view][static_cast<size_t>(d)] != 1 ||
          nest_.dims[static_cast<size_t>(d)] < kLeast) {
        continue;
      }
      for (int e = d; e < nest_.rank - 2; ++e) {
        std::swap(nest_.dims[static_cast<size_t>(e)], nest_.dims[static_cast<size_t>(e + 1)]);
        for (Strides& strides : nest_.strides) {
          std::swap(strides[static_cast<size_t>(e)], strides[static_cast<size_t>(e + 1)]);
        }
      }
      tiles_ = true;
      return;
    }
  }
}

void BlockCursor::seek(int64_t unit) {
  const LoopNest& nest = walk_.nest();
  int64_t row = 0;
  if (walk_.tiles()) {
    const int64_t height = nest.dims[static_cast<size_t>(nest.rank - 2)];
    column_ = unit % walk_.tile_columns() * BlockWalk::kTile;
    unit /= walk_.tile_columns();
    const int64_t first = unit % walk_.tile_rows() * BlockWalk::kTile;
    row = unit / walk_.tile_rows() * height + first;
    rows_ = std::min(BlockWalk::kTile, height - first);
    columns_ = std::min(BlockWalk::kTile, nest.inner() - column_);
    size_ = rows_ * columns_;
  } else if (walk_.long_rows()) {
    row = unit / walk_.blocks_per_row();
    column_ = unit % walk_.blocks_per_row() * kBlock;
    size_ = std::min(kBlock, nest.inner() - column_);
  } else {
    row = unit * kBlock / nest.inner();
    column_ = unit * kBlock % nest.inner();
    size_ = std::min(kBlock, nest.elements - unit * kBlock);
  }
  if (row != row_) {
    row_offsets(nest, row, offsets_);
    row_ = row;
  }
}

// Calls segment(offset, position, count) for each run of the block inside one row.
template <class Segment>
void BlockCursor::for_segments(size_t view, const Segment& segment) const {
  const LoopNest& nest = walk_.nest();
  if (walk_.tiles()) {
    const int64_t step = nest.strides[view][static_cast<size_t>(nest.rank - 2)];
    for (int64_t r = 0; r < rows_; ++r) {
      segment(offset(view) + r * step, r * columns_, columns_);
    }
    return;
  }
  int64_t count = std::min(size_, nest.inner() - column_);
  segment(offset(view), int64_t{0}, count);
  if (count == size_) {
    return;
  }
  // Odometer over the outer loops.
  int64_t index[ncx::kMaxRank];
  int64_t rest = row_;
  for (int d = nest.rank - 2; d >= 0; --d) {
    index[d] = rest % nest.dims[static_cast<size_t>(d)];
    rest /= nest.dims[static_cast<size_t>(d)];
  }
  int64_t at = offsets_[view];
  for (int64_t position = count; position < size_; position += count) {
    for (int d = nest.rank - 2; d >= 0; --d) {
      const auto dim = static_cast<size_t>(d);
      at += nest.strides[view][dim];
      if (++index[d] < nest.dims[dim]) {
        break;
      }
      at -= nest.strides[view][dim] * nest.dims[dim];
      index[d] = 0;
    }
    count = std::min(nest.inner(), size_ - position);
    segment(at, position, count);
  }
}

void BlockCursor::load(size_t view, const std::byte* base, const KernelTable& kernels, Dtype dtype,
                       void* out) const {
  if (walk_.contiguous(view)) {
    kernels.load[index_of(dtype)](out, base + offset(view) * dtype_bytes(dtype), 1, size());
    return;
  }
  load_segments(kernels, dtype, base, walk_.nest().inner_stride(view), out,
                [&](const auto& segment) { for_segments(view, segment); });
}

void BlockCursor::store(size_t view, std::byte* base, const KernelTable& kernels, Dtype dtype,
                        const void* in) const {
  if (walk_.contiguous(view)) {
    kernels.store[index_of(dtype)](base + offset(view) * dtype_bytes(dtype), in, 1, size());
    return;
  }
  store_segments(kernels, dtype, base, walk_.nest().inner_stride(view), in,
                 [&](const auto& segment) { for_segments(view, segment); });
}

void BlockCursor::count(size_t view, int64_t* out) const {
  count_segments(walk_.nest().inner_stride(view), out,
                 [&](const auto& segment) { for_segments(view, segment); });
}

uint64_t load_immediate(const KernelTable& kernels, Dtype dtype, const std::byte* memory) {
  uint64_t value = 0;
  kernels.load[index_of(dtype)](&value, memory, 1, 1);
  return value;
}

}  // namespace onrt
