// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/layout.h"

#include <algorithm>
#include <cstdlib>

namespace onrt {
namespace {

void exchange(LoopNest& nest, int a, int b) {
  std::swap(nest.dims[static_cast<size_t>(a)], nest.dims[static_cast<size_t>(b)]);
  for (Strides& strides : nest.strides) {
    std::swap(strides[static_cast<size_t>(a)], strides[static_cast<size_t>(b)]);
  }
}

// Stable insertion sort: largest stride of the last view outermost; equal strides keep their order.
void order_by_last_view(LoopNest& nest) {
  const auto size = [&](int d) { return std::abs(nest.strides.back()[static_cast<size_t>(d)]); };
  for (int i = 1; i < nest.rank; ++i) {
    for (int d = i; d > 0 && size(d - 1) < size(d); --d) {
      exchange(nest, d - 1, d);
    }
  }
}

bool mergeable(const LoopNest& nest, int outer, int inner) {
  return std::ranges::all_of(nest.strides, [&](const Strides& strides) {
    return strides[static_cast<size_t>(outer)] ==
           strides[static_cast<size_t>(inner)] * nest.dims[static_cast<size_t>(inner)];
  });
}

}  // namespace

LoopNest make_nest(std::span<const int64_t> dims, std::span<const Strides> strides,
                   LoopOrder order) {
  LoopNest nest;
  nest.rank = 0;
  nest.strides.assign(strides.size(), Strides{});
  for (size_t d = 0; d < dims.size(); ++d) {
    nest.elements *= dims[d];
    if (dims[d] == 1) {
      continue;
    }
    const auto at = static_cast<size_t>(nest.rank++);
    nest.dims[at] = dims[d];
    for (size_t v = 0; v < strides.size(); ++v) {
      nest.strides[v][at] = strides[v][d];
    }
  }
  if (nest.rank == 0) {
    nest.rank = 1;
    nest.dims[0] = 1;
    for (Strides& s : nest.strides) {
      s[0] = 1;  // one element is contiguous
    }
    return nest;
  }
  if (order == LoopOrder::kFree) {
    order_by_last_view(nest);
  }
  int merged = 0;  // loops [0, merged] are final
  for (int d = 1; d < nest.rank; ++d) {
    if (mergeable(nest, merged, d)) {
      nest.dims[static_cast<size_t>(merged)] *= nest.dims[static_cast<size_t>(d)];
      for (Strides& s : nest.strides) {
        s[static_cast<size_t>(merged)] = s[static_cast<size_t>(d)];
      }
    } else if (++merged != d) {
      nest.dims[static_cast<size_t>(merged)] = nest.dims[static_cast<size_t>(d)];
      for (Strides& s : nest.strides) {
        s[static_cast<size_t>(merged)] = s[static_cast<size_t>(d)];
      }
    }
  }
  nest.rank = merged + 1;
  return nest;
}

int64_t row_offset(const LoopNest& nest, size_t view, int64_t row) {
  int64_t offset = 0;
  for (int d = nest.rank - 2; d > 0; --d) {
    const int64_t dim = nest.dims[static_cast<size_t>(d)];
    offset += row % dim * nest.strides[view][static_cast<size_t>(d)];
    row /= dim;
  }
  return nest.rank > 1 ? offset + row * nest.strides[view][0] : offset;
}

void row_offsets(const LoopNest& nest, int64_t row, int64_t* offsets) {
  const size_t views = nest.strides.size();
  for (size_t v = 0; v < views; ++v) {
    offsets[v] = 0;
  }
  for (int d = nest.rank - 2; d >= 0; --d) {
    const int64_t dim = nest.dims[static_cast<size_t>(d)];
    const int64_t index = d > 0 ? row % dim : row;  // divisions cost more than the rest
    row = d > 0 ? row / dim : row;
    for (size_t v = 0; v < views; ++v) {
      offsets[v] += index * nest.strides[v][static_cast<size_t>(d)];
    }
  }
}

}  // namespace onrt
