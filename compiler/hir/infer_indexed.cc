// SPDX-License-Identifier: Apache-2.0
// Shapes of operations whose place in memory depends on values: slices, gather, scatter.
#include <algorithm>
#include <array>
#include <vector>

#include "compiler/hir/infer.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

// Start indices: scalars of one integer type, one per dimension of `array`, from operand `first`.
Status require_starts(const InferContext& context, size_t first, const Shape& array) {
  if (context.operand_count() - first != array.rank()) {
    return context.wrong(
        format("expected {} start indices, one per dimension of operand 0, found "
               "{}",
               array.rank(), context.operand_count() - first));
  }
  for (size_t i = first; i < context.operand_count(); ++i) {
    if (!context.operand(i).is_scalar() || !is_integer(context.operand(i).dtype) ||
        context.operand_id(i) != context.operand_id(first)) {
      return context.wrong(
          format("operand {}: expected an integer scalar, all start indices of "
                 "one type, found {}",
                 i, context.text(context.operand_id(i))));
    }
  }
  return ok_status();
}

bool contains(std::span<const int64_t> list, size_t value) {
  return std::ranges::find(list, static_cast<int64_t>(value)) != list.end();
}

Status require_disjoint(const InferContext& context, std::string_view what,
                        std::span<const int64_t> a, std::span<const int64_t> b) {
  for (const int64_t dim : a) {
    if (contains(b, static_cast<size_t>(dim))) {
      return context.wrong(format("{}: dimension {} is named twice", what, dim));
    }
  }
  return ok_status();
}

// The dimension numbers that gather and scatter share, checked.
struct Indexing {
  std::span<const int64_t> index_map;
  std::span<const int64_t> operand_batching;
  std::span<const int64_t> indices_batching;
  size_t vector_dim;
  std::vector<int64_t> batch_dims;  // dims of the indices but for vector_dim
};

Result<Indexing> indexing(const InferContext& context, const Shape& operand, const Shape& indices) {
  Indexing made;
  if (!is_integer(indices.dtype)) {
    return context.wrong(format("indices: expected integers, found {}", dtype_name(indices.dtype)));
  }
  ONRT_ASSIGN_OR_RETURN(made.index_map,
                        context.dimensions(AttributeKey::kIndexMap, operand.rank()));
  ONRT_ASSIGN_OR_RETURN(made.operand_batching,
                        context.dimensions(AttributeKey::kOperandBatching, operand.rank()));
  ONRT_ASSIGN_OR_RETURN(made.indices_batching,
                        context.dimensions(AttributeKey::kIndicesBatching, indices.rank()));
  ONRT_ASSIGN_OR_RETURN(const auto vector_dim, context.exactly(AttributeKey::kIndexVectorDim, 1));
  if (vector_dim[0] < 0 || static_cast<size_t>(vector_dim[0]) > indices.rank()) {
    return context.wrong(format("attribute index_vector_dim: expected one of [0, {}], found {}",
                                indices.rank(), vector_dim[0]));
  }
  made.vector_dim = static_cast<size_t>(vector_dim[0]);
  const int64_t length = made.vector_dim == indices.rank() ? 1 : indices.dims[made.vector_dim];
  if (static_cast<int64_t>(made.index_map.size()) != length) {
    return context.wrong(
        format("attribute index_map: expected {} dimensions, the length of an "
               "index, found {}",
               length, dims_text(made.index_map)));
  }
  ONRT_RETURN_IF_ERROR(require_disjoint(context, "index_map and operand_batching_dims",
                                        made.index_map, made.operand_batching));
  if (made.operand_batching.size() != made.indices_batching.size()) {
    return context.wrong(
        format("batching dimensions: expected as many in operand as in indices, "
               "found {} and {}",
               dims_text(made.operand_batching), dims_text(made.indices_batching)));
  }
  for (size_t i = 0; i < made.operand_batching.size(); ++i) {
    const auto in_operand = static_cast<size_t>(made.operand_batching[i]);
    const auto in_indices = static_cast<size_t>(made.indices_batching[i]);
    if (in_indices == made.vector_dim || operand.dims[in_operand] != indices.dims[in_indices]) {
      return context.wrong(
          format("batching dimension {}: expected equal sizes outside of "
                 "index_vector_dim, found dimension {} of the operand and {} of "
                 "the indices",
                 i, in_operand, in_indices));
    }
  }
  for (size_t i = 0; i < indices.rank(); ++i) {
    if (i != made.vector_dim) {
      made.batch_dims.push_back(indices.dims[i]);
    }
  }
  return made;
}

// Dims of an array whose dimensions `offset_dims` are `window` and the others `batch`, in order.
Result<std::vector<int64_t>> weave(const InferContext& context,
                                   std::span<const int64_t> offset_dims,
                                   std::span<const int64_t> window,
                                   std::span<const int64_t> batch) {
  if (offset_dims.size() != window.size()) {
    return context.wrong(format("attribute offset_dims: expected {} window dimensions, found {}",
                                window.size(), dims_text(offset_dims)));
  }
  if (!std::ranges::is_sorted(offset_dims)) {
    return context.wrong(format("attribute offset_dims: expected ascending order, found {}",
                                dims_text(offset_dims)));
  }
  std::vector<int64_t> dims;
  size_t next_window = 0;
  size_t next_batch = 0;
  for (size_t i = 0; i < window.size() + batch.size(); ++i) {
    if (contains(offset_dims, i)) {
      dims.push_back(window[next_window++]);
    } else if (next_batch < batch.size()) {
      dims.push_back(batch[next_batch++]);
    }
  }
  return dims;
}

}  // namespace

Result<ShapeId> infer_dynamic_slice(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& from = context.operand(0);
  ONRT_RETURN_IF_ERROR(require_starts(context, 1, from));
  ONRT_ASSIGN_OR_RETURN(const auto sizes, context.exactly(AttributeKey::kSliceSizes, from.rank()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > from.dims[i]) {
      return context.wrong(
          format("attribute slice_sizes, dimension {}: expected at most {}, found "
                 "{}",
                 i, from.dims[i], sizes[i]));
    }
  }
  return context.array(from.dtype, sizes);
}

Result<ShapeId> infer_dynamic_update_slice(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& from = context.operand(0);
  const Shape& update = context.operand(1);
  ONRT_RETURN_IF_ERROR(require_starts(context, 2, from));
  bool fits = update.dtype == from.dtype && update.rank() == from.rank();
  for (size_t i = 0; fits && i < from.rank(); ++i) {
    fits = update.dims[i] <= from.dims[i];
  }
  if (!fits) {
    return context.wrong(format("operand 1: expected an update that fits {}, found {}",
                                context.text(context.operand_id(0)),
                                context.text(context.operand_id(1))));
  }
  return context.operand_id(0);
}

Result<ShapeId> infer_gather(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& operand = context.operand(0);
  ONRT_ASSIGN_OR_RETURN(const Indexing index, indexing(context, operand, context.operand(1)));
  ONRT_ASSIGN_OR_RETURN(const auto collapsed,
                        context.dimensions(AttributeKey::kCollapsedDims, operand.rank()));
  ONRT_RETURN_IF_ERROR(require_disjoint(context, "collapsed_dims and operand_batching_dims",
                                        collapsed, index.operand_batching));
  ONRT_ASSIGN_OR_RETURN(const auto sizes,
                        context.exactly(AttributeKey::kSliceSizes, operand.rank()));
  std::vector<int64_t> window;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool dropped = contains(collapsed, i) || contains(index.operand_batching, i);
    if (sizes[i] < 0 || sizes[i] > operand.dims[i] || (dropped && sizes[i] != 1)) {
      return context.wrong(
          format("attribute slice_sizes, dimension {}: expected {}, found {}", i,
                 dropped ? std::string("1") : format("at most {}", operand.dims[i]), sizes[i]));
    }
    if (!dropped) {
      window.push_back(sizes[i]);
    }
  }
  ONRT_ASSIGN_OR_RETURN(
      const auto offset_dims,
      context.dimensions(AttributeKey::kOffsetDims, window.size() + index.batch_dims.size()));
  ONRT_ASSIGN_OR_RETURN(const auto dims, weave(context, offset_dims, window, index.batch_dims));
  return context.array(operand.dtype, dims);
}

// Operands: n arrays, indices, n updates. The computation takes n current values, then n updates.
Result<ShapeId> infer_scatter(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  if (context.operand_count() % 2 != 1) {
    return context.wrong(format("expected n arrays, indices and n updates, found {} operands",
                                context.operand_count()));
  }
  const size_t n = context.operand_count() / 2;
  const Shape& operand = context.operand(0);
  const Shape& updates = context.operand(n + 1);
  ONRT_ASSIGN_OR_RETURN(const Indexing index, indexing(context, operand, context.operand(n)));
  ONRT_ASSIGN_OR_RETURN(const auto inserted,
                        context.dimensions(AttributeKey::kCollapsedDims, operand.rank()));
  ONRT_RETURN_IF_ERROR(require_disjoint(context, "collapsed_dims and operand_batching_dims",
                                        inserted, index.operand_batching));
  ONRT_ASSIGN_OR_RETURN(const auto window_dims,
                        context.dimensions(AttributeKey::kOffsetDims, updates.rank()));
  std::vector<int64_t> bounds;  // of the window, by operand dimension
  for (size_t i = 0; i < operand.rank(); ++i) {
    if (!contains(inserted, i) && !contains(index.operand_batching, i)) {
      bounds.push_back(operand.dims[i]);
    }
  }
  std::vector<int64_t> window;
  for (const int64_t dim : window_dims) {
    window.push_back(updates.dims[static_cast<size_t>(dim)]);
  }
  for (size_t i = 0; i < std::min(window.size(), bounds.size()); ++i) {
    if (window[i] > bounds[i]) {
      return context.wrong(
          format("window dimension {}: expected at most {}, found {}", i, bounds[i], window[i]));
    }
  }
  if (window.size() != bounds.size()) {
    return context.wrong(format("attribute offset_dims: expected {} window dimensions, found {}",
                                bounds.size(), dims_text(window_dims)));
  }
  ONRT_ASSIGN_OR_RETURN(const auto dims, weave(context, window_dims, window, index.batch_dims));
  std::vector<ShapeId> scalars(2 * n);
  std::vector<ShapeId> results(n);
  for (size_t i = 0; i < n; ++i) {
    results[i] = context.operand_id(i);
    const Dtype dtype = context.operand(i).dtype;
    ONRT_ASSIGN_OR_RETURN(const ShapeId array, context.array(dtype, operand.dims));
    ONRT_ASSIGN_OR_RETURN(const ShapeId update, context.array(dtype, dims));
    if (results[i] != array || context.operand_id(n + 1 + i) != update) {
      const size_t at = results[i] != array ? i : n + 1 + i;
      return context.wrong(format("operand {}: expected {}, found {}", at,
                                  context.text(at == i ? array : update),
                                  context.text(context.operand_id(at))));
    }
    ONRT_ASSIGN_OR_RETURN(scalars[i], context.array(dtype, {}));
    scalars[n + i] = scalars[i];
  }
  ONRT_ASSIGN_OR_RETURN(const Computation* callee, context.callee());
  Result<ShapeId> scalar_result =
      n == 1 ? Result<ShapeId>(scalars[0]) : context.shapes().tuple({scalars.data(), n});
  ONRT_RETURN_IF_ERROR(scalar_result.status());
  ONRT_RETURN_IF_ERROR(context.require_signature(*callee, scalars, *scalar_result));
  return n == 1 ? Result<ShapeId>(results[0]) : context.shapes().tuple(results);
}

}  // namespace onrt::hir
