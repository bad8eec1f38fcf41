// SPDX-License-Identifier: Apache-2.0
// Shapes of operations that work element by element.
#include <algorithm>
#include <array>

#include "compiler/hir/infer.h"
#include "compiler/hir/scalar.h"
#include "emulator/isa/scalar_op.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

// Operands 0..n-1 must have one shape.
Status require_equal(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  for (size_t i = 1; i < context.operand_count(); ++i) {
    if (context.operand_id(i) != context.operand_id(0)) {
      return context.wrong(format("operand {}: expected {}, the shape of operand 0, found {}", i,
                                  context.text(context.operand_id(0)),
                                  context.text(context.operand_id(i))));
    }
  }
  return ok_status();
}

// Operand i may be a scalar of the right type in place of an array with these dims.
Status require_dims_or_scalar(const InferContext& context, size_t i,
                              std::span<const int64_t> dims) {
  const Shape& found = context.operand(i);
  if (!found.is_scalar() && !std::ranges::equal(found.dims, dims)) {
    return context.wrong(format("operand {}: expected dimensions {} or a scalar, found {}", i,
                                dims_text(dims), context.text(context.operand_id(i))));
  }
  return ok_status();
}

Status require_type(const InferContext& context, size_t i, Dtype dtype) {
  if (context.operand(i).dtype != dtype) {
    return context.wrong(format("operand {}: expected element type {}, found {}", i,
                                dtype_name(dtype), context.text(context.operand_id(i))));
  }
  return ok_status();
}

Status refuse_type(const InferContext& context) {
  return context.wrong(
      format("element type {} is not one it takes", dtype_name(context.operand(0).dtype)));
}

}  // namespace

Result<ShapeId> infer_elementwise(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(require_equal(context));
  const Shape& first = context.operand(0);
  std::array<Dtype, 3> types;
  types.fill(first.dtype);
  const ncx::ScalarOp op = opcode_info(context.candidate().opcode).scalar;
  if (!ncx::scalar_op_typed(op, {types.data(), context.operand_count()}, first.dtype)) {
    return refuse_type(context);
  }
  return context.operand_id(0);
}

Result<ShapeId> infer_clamp(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& value = context.operand(1);
  for (const size_t bound : {size_t{0}, size_t{2}}) {
    ONRT_RETURN_IF_ERROR(require_type(context, bound, value.dtype));
    ONRT_RETURN_IF_ERROR(require_dims_or_scalar(context, bound, value.dims));
  }
  const std::array<Dtype, 3> types = {value.dtype, value.dtype, value.dtype};
  if (!ncx::scalar_op_typed(ncx::ScalarOp::kClamp, types, value.dtype)) {
    return refuse_type(context);
  }
  return context.operand_id(1);
}

Result<ShapeId> infer_select(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  ONRT_RETURN_IF_ERROR(require_type(context, 0, Dtype::kPred));
  ONRT_RETURN_IF_ERROR(require_dims_or_scalar(context, 0, context.operand(1).dims));
  if (context.operand_id(1) != context.operand_id(2)) {
    return context.wrong(format("operand 2: expected {}, the shape of operand 1, found {}",
                                context.text(context.operand_id(1)),
                                context.text(context.operand_id(2))));
  }
  return context.operand_id(1);
}

Result<ShapeId> infer_compare(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(require_equal(context));
  const Attribute* direction = context.find(AttributeKey::kComparison);
  if (direction == nullptr || !comparison(direction->text(), false)) {
    return context.wrong(
        format("attribute direction: expected EQ, NE, LT, LE, GT or GE, found "
               "'{}'",
               direction == nullptr ? "" : direction->text()));
  }
  return context.array(Dtype::kPred, context.operand(0).dims);
}

Result<ShapeId> infer_convert(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  if (!context.given().is_array()) {
    return context.wrong(
        format("shape: expected an array, found {}", context.text(context.given_id())));
  }
  return context.array(context.given().dtype, context.operand(0).dims);
}

// Equal widths keep the dims; a narrower result gains a last dimension, a wider one loses it.
Result<ShapeId> infer_bitcast_convert(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  if (!context.given().is_array()) {
    return context.wrong(
        format("shape: expected an array, found {}", context.text(context.given_id())));
  }
  const Shape& from = context.operand(0);
  const Dtype to = context.given().dtype;
  const uint32_t from_bytes = dtype_bytes(from.dtype);
  const uint32_t to_bytes = dtype_bytes(to);
  if ((from.dtype == Dtype::kPred) != (to == Dtype::kPred)) {
    return context.wrong(format("pred has no bit pattern to share with {}",
                                dtype_name(to == Dtype::kPred ? from.dtype : to)));
  }
  std::vector<int64_t> dims(from.dims.begin(), from.dims.end());
  if (from_bytes > to_bytes) {
    dims.push_back(from_bytes / to_bytes);
  } else if (from_bytes < to_bytes) {
    if (dims.empty() || dims.back() != to_bytes / from_bytes) {
      return context.wrong(
          format("operand 0: expected a last dimension of {} to make one {}, "
                 "found {}",
                 to_bytes / from_bytes, dtype_name(to), context.text(context.operand_id(0))));
    }
    dims.pop_back();
  }
  return context.array(to, dims);
}

Result<ShapeId> infer_is_finite(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  if (!is_floating(context.operand(0).dtype)) {
    return refuse_type(context);
  }
  return context.array(Dtype::kPred, context.operand(0).dims);
}

Result<ShapeId> infer_reduce_precision(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  if (!is_floating(context.operand(0).dtype)) {
    return refuse_type(context);
  }
  ONRT_ASSIGN_OR_RETURN(const auto bits, context.exactly(AttributeKey::kExponentMantissa, 2));
  if (bits[0] < 1 || bits[0] > 11 || bits[1] < 0 || bits[1] > 52) {
    return context.wrong(
        format("attribute exponent_mantissa: expected 1..11 and 0..52 bits, found "
               "{} and {}",
               bits[0], bits[1]));
  }
  return context.operand_id(0);
}

}  // namespace onrt::hir
