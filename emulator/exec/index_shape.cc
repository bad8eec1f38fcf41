// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/index_shape.h"

#include <algorithm>

namespace onrt {
namespace {

bool contains(std::span<const int64_t> dims, int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

}  // namespace

IndexShape::IndexShape(const IndexNumbers& n) {
  // Batch dims of the result correspond to the dims of indices except the vector's, in order.
  std::vector<int64_t> indices_dims;
  for (int64_t d = 0; d < n.indices.rank; ++d) {
    if (d != n.vector_dim) {
      indices_dims.push_back(d);
    }
  }
  size_t next = 0;
  for (size_t d = 0; d < n.result.rank; ++d) {
    if (contains(n.window_dims, static_cast<int64_t>(d))) {
      continue;
    }
    const int64_t from = indices_dims[next++];
    batch_dims.push_back(n.result.dims[d]);
    batch_result_strides.push_back(n.result.strides[d]);
    batch_indices_strides.push_back(n.indices.strides[static_cast<size_t>(from)]);
    int64_t whole_stride = 0;
    for (size_t b = 0; b < n.indices_batch.size(); ++b) {
      if (n.indices_batch[b] == from) {
        whole_stride = n.whole.strides[static_cast<size_t>(n.whole_batch[b])];
      }
    }
    batch_whole_strides.push_back(whole_stride);
  }
  // Window dims of the result correspond to the dims of whole that are neither removed nor batch.
  std::vector<int64_t> size_of(n.whole.rank, 1);
  size_t window = 0;
  for (size_t d = 0; d < n.whole.rank; ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (contains(n.removed_dims, dim) || contains(n.whole_batch, dim)) {
      continue;
    }
    const auto at = static_cast<size_t>(n.window_dims[window++]);
    size_of[d] = n.result.dims[at];
    window_sizes.push_back(n.result.dims[at]);
    window_result_strides.push_back(n.result.strides[at]);
    window_whole_strides.push_back(n.whole.strides[d]);
  }
  vector_stride =
      n.vector_dim < n.indices.rank ? n.indices.strides[static_cast<size_t>(n.vector_dim)] : 0;
  for (const int64_t dim : n.index_map) {
    const auto d = static_cast<size_t>(dim);
    start_strides.push_back(n.whole.strides[d]);
    start_limits.push_back(n.whole.dims[d] - size_of[d]);
  }
}

}  // namespace onrt
