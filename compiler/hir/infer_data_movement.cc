// SPDX-License-Identifier: Apache-2.0
// Shapes of operations that move elements without computing.
#include <algorithm>
#include <array>
#include <vector>

#include "compiler/hir/infer.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

// Largest magnitude of a slice bound, padding or stride: keeps sums far from overflow.
constexpr int64_t kMaxExtent = int64_t{1} << 48;

Status require_same_elements(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& from = context.operand(0);
  const Shape& to = context.given();
  if (!to.is_array() || to.element_count != from.element_count) {
    return context.wrong(format("shape: expected {} elements as in {}, found {}",
                                from.element_count, context.text(context.operand_id(0)),
                                context.text(context.given_id())));
  }
  return ok_status();
}

}  // namespace

Result<ShapeId> infer_reshape(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(require_same_elements(context));
  return context.array(context.operand(0).dtype, context.given().dims);
}

// A bitcast is a reshape or a bitcast-convert that moves nothing.
Result<ShapeId> infer_bitcast(const InferContext& context) {
  if (context.given().is_array() && context.operand(0).is_array() &&
      context.given().dtype != context.operand(0).dtype) {
    return infer_bitcast_convert(context);
  }
  return infer_reshape(context);
}

Result<ShapeId> infer_broadcast(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& from = context.operand(0);
  const Shape& to = context.given();
  if (!to.is_array()) {
    return context.wrong(
        format("shape: expected an array, found {}", context.text(context.given_id())));
  }
  ONRT_RETURN_IF_ERROR(context.exactly(AttributeKey::kDimensions, from.rank()).status());
  ONRT_ASSIGN_OR_RETURN(const auto dims, context.dimensions(AttributeKey::kDimensions, to.rank()));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (to.dims[static_cast<size_t>(dims[i])] != from.dims[i]) {
      return context.wrong(format("dimension {} of the result: expected {}, found {} in {}",
                                  dims[i], from.dims[i], to.dims[static_cast<size_t>(dims[i])],
                                  context.text(context.given_id())));
    }
  }
  return context.array(from.dtype, to.dims);
}

Result<ShapeId> infer_transpose(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& from = context.operand(0);
  ONRT_RETURN_IF_ERROR(context.exactly(AttributeKey::kDimensions, from.rank()).status());
  ONRT_ASSIGN_OR_RETURN(const auto order,
                        context.dimensions(AttributeKey::kDimensions, from.rank()));
  std::vector<int64_t> dims(from.rank());
  for (size_t i = 0; i < dims.size(); ++i) {
    dims[i] = from.dims[static_cast<size_t>(order[i])];
  }
  return context.array(from.dtype, dims);
}

Result<ShapeId> infer_reverse(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  ONRT_RETURN_IF_ERROR(
      context.dimensions(AttributeKey::kDimensions, context.operand(0).rank()).status());
  return context.operand_id(0);
}

Result<ShapeId> infer_slice(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& from = context.operand(0);
  ONRT_ASSIGN_OR_RETURN(const auto slice, context.exactly(AttributeKey::kSlice, 3 * from.rank()));
  std::vector<int64_t> dims(from.rank());
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t start = slice[3 * i];
    const int64_t limit = slice[3 * i + 1];
    const int64_t stride = slice[3 * i + 2];
    if (start < 0 || limit < start || limit > from.dims[i] || stride < 1) {
      return context.wrong(
          format("dimension {}: expected 0 <= start <= limit <= {} and stride >= "
                 "1, found start {}, limit {}, stride {}",
                 i, from.dims[i], start, limit, stride));
    }
    dims[i] = limit == start ? 0 : (limit - start - 1) / stride + 1;
  }
  return context.array(from.dtype, dims);
}

Result<ShapeId> infer_pad(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& from = context.operand(0);
  const Shape& value = context.operand(1);
  if (!value.is_scalar() || value.dtype != from.dtype) {
    return context.wrong(format("operand 1: expected a scalar {}, found {}", dtype_name(from.dtype),
                                context.text(context.operand_id(1))));
  }
  ONRT_ASSIGN_OR_RETURN(const auto padding,
                        context.exactly(AttributeKey::kPadding, 3 * from.rank()));
  std::vector<int64_t> dims(from.rank());
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t low = padding[3 * i];
    const int64_t high = padding[3 * i + 1];
    const int64_t interior = padding[3 * i + 2];
    int64_t inside = 0;
    if (std::max(std::abs(low), std::abs(high)) > kMaxExtent || interior < 0 ||
        interior > kMaxExtent ||
        __builtin_mul_overflow(std::max<int64_t>(from.dims[i] - 1, 0), interior, &inside) ||
        inside > kMaxExtent) {
      return context.wrong(
          format("dimension {}: padding low {}, high {}, interior {} is out of "
                 "range",
                 i, low, high, interior));
    }
    dims[i] = from.dims[i] + inside + low + high;
    if (dims[i] < 0) {
      return context.wrong(
          format("dimension {}: padding low {}, high {}, interior {} of {} "
                 "elements leaves {}",
                 i, low, high, interior, from.dims[i], dims[i]));
    }
  }
  return context.array(from.dtype, dims);
}

Result<ShapeId> infer_concatenate(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& first = context.operand(0);
  ONRT_RETURN_IF_ERROR(context.exactly(AttributeKey::kDimensions, 1).status());
  ONRT_ASSIGN_OR_RETURN(const auto dim,
                        context.dimensions(AttributeKey::kDimensions, first.rank()));
  const auto axis = static_cast<size_t>(dim[0]);
  std::vector<int64_t> dims(first.dims.begin(), first.dims.end());
  for (size_t i = 1; i < context.operand_count(); ++i) {
    const Shape& next = context.operand(i);
    bool fits = next.dtype == first.dtype && next.rank() == first.rank();
    for (size_t d = 0; fits && d < dims.size(); ++d) {
      fits = d == axis || next.dims[d] == dims[d];
    }
    if (!fits) {
      return context.wrong(format("operand {}: expected {} but for dimension {}, found {}", i,
                                  context.text(context.operand_id(0)), axis,
                                  context.text(context.operand_id(i))));
    }
    dims[axis] += next.dims[axis];  // at most 65536 operands of at most 2^40 each
  }
  return context.array(first.dtype, dims);
}

Result<ShapeId> infer_iota(const InferContext& context) {
  const Shape& shape = context.given();
  if (!shape.is_array() || shape.rank() == 0 || shape.dtype == Dtype::kPred) {
    return context.wrong(format("shape: expected an array of numbers of rank 1 or more, found {}",
                                context.text(context.given_id())));
  }
  ONRT_RETURN_IF_ERROR(context.exactly(AttributeKey::kDimensions, 1).status());
  ONRT_RETURN_IF_ERROR(context.dimensions(AttributeKey::kDimensions, shape.rank()).status());
  return context.given_id();
}

}  // namespace onrt::hir
