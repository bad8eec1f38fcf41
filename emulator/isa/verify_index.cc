// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include "emulator/isa/verify_parts.h"
#include "runtime/base/format.h"

namespace onrt::ncx {
namespace {

Status invalid(std::string message) { return Status(NRT_INVALID, std::move(message)); }

// Strictly ascending and inside [0, rank).
Status check_sorted(std::span<const int64_t> dims, int64_t rank, std::string_view what) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= rank || (i > 0 && dims[i] <= dims[i - 1])) {
      return invalid(
          format("{}: {} is not an ascending dimension of rank {}", what, dims[i], rank));
    }
  }
  return ok_status();
}

// Inside [0, rank), each at most once, any order.
Status check_distinct(std::span<const int64_t> dims, int64_t rank, std::string_view what) {
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool again = std::find(dims.begin(), dims.begin() + static_cast<int64_t>(i), dims[i]) !=
                       dims.begin() + static_cast<int64_t>(i);
    if (dims[i] < 0 || dims[i] >= rank || again) {
      return invalid(format("{}: {} is not a new dimension of rank {}", what, dims[i], rank));
    }
  }
  return ok_status();
}

bool contains(std::span<const int64_t> dims, int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

// What gather and scatter share: `whole` is indexed by vectors in `indices`; `window` are the
// dimensions of the result (updates) that run inside a slice.
struct IndexShape {
  const View& whole;
  const View& indices;
  const View& result;
  std::span<const int64_t> window;
  std::span<const int64_t> removed;
  std::span<const int64_t> map;
  std::span<const int64_t> whole_batch;
  std::span<const int64_t> indices_batch;
  int64_t vector_dim;
};

Status check_index_shape(const IndexShape& s) {
  const int64_t whole_rank = s.whole.rank;
  const int64_t indices_rank = s.indices.rank;
  if (!is_integer(s.indices.dtype)) {
    return invalid(format("indices of type {}", dtype_name(s.indices.dtype)));
  }
  if (s.vector_dim < 0 || s.vector_dim > indices_rank) {
    return invalid(format("index vector dimension {} of rank {}", s.vector_dim, indices_rank));
  }
  ONRT_RETURN_IF_ERROR(check_sorted(s.window, s.result.rank, "window dims"));
  ONRT_RETURN_IF_ERROR(check_sorted(s.removed, whole_rank, "collapsed or inserted dims"));
  ONRT_RETURN_IF_ERROR(check_sorted(s.whole_batch, whole_rank, "operand batching dims"));
  ONRT_RETURN_IF_ERROR(check_distinct(s.map, whole_rank, "index map"));
  ONRT_RETURN_IF_ERROR(check_distinct(s.indices_batch, indices_rank, "indices batching dims"));
  const int64_t vector_size = s.vector_dim == indices_rank ? 1 : s.indices.dims[s.vector_dim];
  if (vector_size != static_cast<int64_t>(s.map.size())) {
    return invalid(format("index vectors of {} for {} mapped dims", vector_size, s.map.size()));
  }
  if (s.whole_batch.size() != s.indices_batch.size() || contains(s.indices_batch, s.vector_dim)) {
    return invalid("batching dims of operand and indices do not match");
  }
  for (size_t i = 0; i < s.whole_batch.size(); ++i) {
    if (contains(s.removed, s.whole_batch[i]) || contains(s.map, s.whole_batch[i]) ||
        s.whole.dims[s.whole_batch[i]] != s.indices.dims[s.indices_batch[i]]) {
      return invalid(
          format("operand batching dim {} is used twice or differs in size", s.whole_batch[i]));
    }
  }
  // Dimensions of the result that are not in the window are those of the indices, in order.
  int64_t at = 0;
  int64_t batch_dims = 0;
  for (int64_t d = 0; d < s.result.rank; ++d) {
    if (contains(s.window, d)) {
      continue;
    }
    at += at == s.vector_dim ? 1 : 0;
    if (at >= indices_rank || s.result.dims[d] != s.indices.dims[at]) {
      return invalid(format("dimension {} of the result or updates is not that of the indices", d));
    }
    ++at;
    ++batch_dims;
  }
  const int64_t want = indices_rank - (s.vector_dim < indices_rank ? 1 : 0);
  const int64_t window = whole_rank - static_cast<int64_t>(s.removed.size() + s.whole_batch.size());
  if (batch_dims != want || static_cast<int64_t>(s.window.size()) != window) {
    return invalid(format("{} window and {} batch dims where {} and {} are expected",
                          s.window.size(), batch_dims, window, want));
  }
  return ok_status();
}

}  // namespace

Status verify_gather(const Gather& op) {
  if (op.operand.dtype != op.output.dtype) {
    return invalid(
        format("gathers {} from {}", dtype_name(op.output.dtype), dtype_name(op.operand.dtype)));
  }
  if (op.slice_sizes.size() != op.operand.rank) {
    return invalid(format("{} slice sizes for rank {}", op.slice_sizes.size(), op.operand.rank));
  }
  ONRT_RETURN_IF_ERROR(
      check_index_shape({op.operand, op.indices, op.output, op.offset_dims, op.collapsed_slice_dims,
                         op.start_index_map, op.operand_batching_dims,
                         op.start_indices_batching_dims, op.index_vector_dim}));
  size_t offset = 0;
  for (int64_t d = 0; d < op.operand.rank; ++d) {
    const int64_t size = op.slice_sizes[static_cast<size_t>(d)];
    const bool removed =
        contains(op.collapsed_slice_dims, d) || contains(op.operand_batching_dims, d);
    if (size < 0 || size > op.operand.dims[d] || (removed && size > 1)) {
      return invalid(
          format("slice size {} of dimension {} with {} elements", size, d, op.operand.dims[d]));
    }
    if (!removed && op.output.dims[op.offset_dims[offset++]] != size) {
      return invalid(format("the output does not hold the {} elements of dimension {}", size, d));
    }
  }
  return ok_status();
}

Status verify_scatter(const Scatter& op) {
  const View& whole = op.outputs[0];
  ONRT_RETURN_IF_ERROR(check_index_shape({whole, op.indices, op.updates[0], op.update_window_dims,
                                          op.inserted_window_dims, op.scatter_dims_to_operand_dims,
                                          op.input_batching_dims, op.scatter_indices_batching_dims,
                                          op.index_vector_dim}));
  size_t window = 0;
  for (int64_t d = 0; d < whole.rank; ++d) {
    if (contains(op.inserted_window_dims, d) || contains(op.input_batching_dims, d)) {
      continue;
    }
    const int64_t size = op.updates[0].dims[op.update_window_dims[window++]];
    if (size > whole.dims[d]) {
      return invalid(
          format("a window of {} in dimension {} with {} elements", size, d, whole.dims[d]));
    }
  }
  return ok_status();
}

}  // namespace onrt::ncx
