// SPDX-License-Identifier: Apache-2.0
// Slices at run-time places, gather and scatter, as the XLA operation semantics define them.
#include <algorithm>

#include "compiler/hir/status.h"
#include "compiler/reference/interpreter.h"

namespace onrt::reference {
namespace {

using hir::AttributeKey;

bool contains(std::span<const int64_t> list, size_t value) {
  return std::ranges::find(list, static_cast<int64_t>(value)) != list.end();
}

// An integer of any type; u64 above the largest s64 counts as that.
int64_t index_value(const Tensor& tensor, int64_t position) {
  const int64_t value = tensor.integer(position);
  return tensor.dtype == Dtype::kU64 && value < 0 ? INT64_MAX : value;
}

// Start indices, clamped so that the window fits.
Index clamped_starts(const Operation& operation, size_t first, const Index& dims,
                     const Index& window) {
  Index starts;
  for (size_t d = 0; d < dims.size(); ++d) {
    starts.push_back(
        std::clamp<int64_t>(index_value(operation.operand(first + d), 0), 0, dims[d] - window[d]));
  }
  return starts;
}

Index plus(const Index& a, const Index& b) {
  Index made = a;
  for (size_t d = 0; d < made.size(); ++d) {
    made[d] += b[d];
  }
  return made;
}

// The start of a window in the operand that the index vector at `batch` (dims of the indices but
// for index_vector_dim) names; not clamped.
Index window_start(const Operation& operation, const Tensor& indices, const Index& batch,
                   size_t operand_rank) {
  const auto vector_dim = static_cast<size_t>(operation.ints(AttributeKey::kIndexVectorDim)[0]);
  const auto map = operation.ints(AttributeKey::kIndexMap);
  const auto operand_batching = operation.ints(AttributeKey::kOperandBatching);
  const auto indices_batching = operation.ints(AttributeKey::kIndicesBatching);
  Index start(operand_rank, 0);
  for (size_t i = 0; i < map.size(); ++i) {
    Index at = batch;
    if (vector_dim < indices.dims.size()) {
      at.insert(at.begin() + static_cast<ptrdiff_t>(vector_dim), static_cast<int64_t>(i));
    }
    start[static_cast<size_t>(map[i])] = index_value(indices, indices.position(at));
  }
  for (size_t i = 0; i < operand_batching.size(); ++i) {
    const auto d = static_cast<size_t>(indices_batching[i]);
    start[static_cast<size_t>(operand_batching[i])] = batch[d < vector_dim ? d : d - 1];
  }
  return start;
}

// The elements of `index` at dimensions in `window_dims` (true) or at the others (false).
Index part(const Index& index, std::span<const int64_t> window_dims, bool window) {
  Index made;
  for (size_t d = 0; d < index.size(); ++d) {
    if (contains(window_dims, d) == window) {
      made.push_back(index[d]);
    }
  }
  return made;
}

// A window index spread over the operand's dimensions; left-out ones are 0.
Index spread(const Operation& operation, const Index& window, size_t operand_rank) {
  const auto collapsed = operation.ints(AttributeKey::kCollapsedDims);
  const auto batching = operation.ints(AttributeKey::kOperandBatching);
  Index made(operand_rank, 0);
  size_t next = 0;
  for (size_t d = 0; d < operand_rank; ++d) {
    if (!contains(collapsed, d) && !contains(batching, d)) {
      made[d] = window[next++];
    }
  }
  return made;
}

}  // namespace

Status evaluate_dynamic_slice(Operation& operation) {
  const Tensor& operand = operation.operand(0);
  Tensor& result = operation.result();
  const Index start = clamped_starts(operation, 1, operand.dims, result.dims);
  for_each_index(result.dims, [&](const Index& index, int64_t position) {
    result.copy_element(position, operand, operand.position(plus(start, index)));
  });
  return ok_status();
}

Status evaluate_dynamic_update_slice(Operation& operation) {
  const Tensor& update = operation.operand(1);
  Tensor& result = operation.result();
  result.data = operation.operand(0).data;
  const Index start = clamped_starts(operation, 2, result.dims, update.dims);
  for_each_index(update.dims, [&](const Index& index, int64_t position) {
    result.copy_element(result.position(plus(start, index)), update, position);
  });
  return ok_status();
}

Status evaluate_gather(Operation& operation) {
  const Tensor& operand = operation.operand(0);
  const Tensor& indices = operation.operand(1);
  const auto offset_dims = operation.ints(AttributeKey::kOffsetDims);
  const auto sizes = operation.ints(AttributeKey::kSliceSizes);
  Tensor& result = operation.result();
  for_each_index(result.dims, [&](const Index& index, int64_t position) {
    Index start =
        window_start(operation, indices, part(index, offset_dims, false), operand.dims.size());
    for (size_t d = 0; d < start.size(); ++d) {
      start[d] = std::clamp<int64_t>(start[d], 0, operand.dims[d] - sizes[d]);
    }
    const Index window = spread(operation, part(index, offset_dims, true), operand.dims.size());
    result.copy_element(position, operand, operand.position(plus(start, window)));
  });
  return ok_status();
}

// Updates are applied in row-major order of their index; one whose window leaves the operand is
// skipped.
Status evaluate_scatter(Operation& operation) {
  const size_t n = operation.results.size();
  const Tensor& indices = operation.operand(n);
  const Tensor& updates = operation.operand(n + 1);
  const auto window_dims = operation.ints(AttributeKey::kOffsetDims);
  for (size_t i = 0; i < n; ++i) {
    operation.results[i].data = operation.operand(i).data;
  }
  const Index dims = operation.result().dims;
  const Index window_sizes = spread(operation, part(updates.dims, window_dims, true), dims.size());
  Status status = ok_status();
  for_each_index(updates.dims, [&](const Index& index, int64_t position) {
    const Index start =
        window_start(operation, indices, part(index, window_dims, false), dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      if (start[d] < 0 || start[d] > dims[d] - std::max<int64_t>(window_sizes[d], 1)) {
        return;
      }
    }
    const Index window = spread(operation, part(index, window_dims, true), dims.size());
    const int64_t target = operation.result().position(plus(start, window));
    std::vector<Tensors> arguments(2 * n);
    for (size_t i = 0; i < n; ++i) {
      const Dtype dtype = operation.results[i].dtype;
      const Tensor scalar{dtype, {}, std::vector<std::byte>(dtype_bytes(dtype))};
      arguments[i] = {scalar};
      arguments[n + i] = {scalar};
      arguments[i][0].copy_element(0, operation.results[i], target);
      arguments[n + i][0].copy_element(0, operation.operand(n + 1 + i), position);
    }
    Result<Tensors> values = interpret(operation.graph, operation.callee(), arguments);
    if (!values.ok()) {
      status = std::move(values).status();
      return;
    }
    for (size_t i = 0; i < n; ++i) {
      operation.results[i].copy_element(target, values->at(i), 0);
    }
  });
  return status;
}

}  // namespace onrt::reference
