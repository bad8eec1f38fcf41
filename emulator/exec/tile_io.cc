// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/tile_io.h"

#include <algorithm>

#include "emulator/exec/segments.h"

namespace onrt {
namespace {

size_t index_of(Dtype dtype) { return static_cast<size_t>(dtype); }

}  // namespace

NestIndex::NestIndex(const LoopNest& nest, size_t view, int64_t start) : nest_(nest), view_(view) {
  for (int d = nest.rank - 1; d >= 0; --d) {
    const auto dim = static_cast<size_t>(d);
    index_[d] = start % nest.dims[dim];
    start /= nest.dims[dim];
    offset_ += index_[d] * nest.strides[view][dim];
  }
}

void NestIndex::advance(int64_t count) {
  int d = nest_.rank - 1;
  index_[d] += count;
  offset_ += count * nest_.strides[view_][static_cast<size_t>(d)];
  while (d > 0 && index_[d] == nest_.dims[static_cast<size_t>(d)]) {
    offset_ -= index_[d] * nest_.strides[view_][static_cast<size_t>(d)];
    index_[d] = 0;
    --d;
    ++index_[d];
    offset_ += nest_.strides[view_][static_cast<size_t>(d)];
  }
}

void TileCursor::seek(int64_t outer, int64_t outer_count, int64_t inner, int64_t inner_count) {
  outer_at_ = outer;
  outer_count_ = outer_count;
  inner_at_ = inner;
  inner_count_ = inner_count;
}

std::byte* TileCursor::address(size_t view, std::byte* base, int64_t width) const {
  const int64_t offset =
      NestIndex(outer_, view, outer_at_).offset() + NestIndex(inner_, view, inner_at_).offset();
  return base + offset * width;
}

template <class Segment>
void TileCursor::for_segments(size_t view, const Segment& segment) const {
  NestIndex outer(outer_, view, outer_at_);
  const NestIndex first(inner_, view, inner_at_);
  if (first.left_in_row() >= inner_count_) {
    // One run per outer index.
    for (int64_t o = 0; o < outer_count_; ++o) {
      segment(outer.offset() + first.offset(), o * inner_count_, inner_count_);
      if (o + 1 < outer_count_) {
        outer.advance(1);
      }
    }
    return;
  }
  for (int64_t o = 0; o < outer_count_; ++o) {
    NestIndex inner = first;
    for (int64_t done = 0; done < inner_count_;) {
      const int64_t count = std::min(inner.left_in_row(), inner_count_ - done);
      segment(outer.offset() + inner.offset(), o * inner_count_ + done, count);
      done += count;
      if (done < inner_count_) {
        inner.advance(count);
      }
    }
    if (o + 1 < outer_count_) {
      outer.advance(1);
    }
  }
}

void TileCursor::load(size_t view, const std::byte* base, const KernelTable& kernels, Dtype dtype,
                      void* out) const {
  const int64_t stride = inner_.inner_stride(view);
  // Dense in memory as in the buffer: one move.
  if (inner_.rank == 1 && stride == 1 &&
      (outer_count_ == 1 || (outer_.rank == 1 && outer_.inner_stride(view) == inner_count_))) {
    const int64_t at = NestIndex(outer_, view, outer_at_).offset() + inner_at_;
    kernels.load[index_of(dtype)](out, base + at * dtype_bytes(dtype), 1, size());
    return;
  }
  load_segments(kernels, dtype, base, stride, out,
                [&](const auto& segment) { for_segments(view, segment); });
}

void TileCursor::store(size_t view, std::byte* base, const KernelTable& kernels, Dtype dtype,
                       const void* in) const {
  store_segments(kernels, dtype, base, inner_.inner_stride(view), in,
                 [&](const auto& segment) { for_segments(view, segment); });
}

void TileCursor::count(size_t view, int64_t* out) const {
  count_segments(inner_.inner_stride(view), out,
                 [&](const auto& segment) { for_segments(view, segment); });
}

}  // namespace onrt
