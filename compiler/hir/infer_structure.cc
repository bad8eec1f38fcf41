// SPDX-License-Identifier: Apache-2.0
// Shapes of parameters, constants, tuples and calls.
#include <vector>

#include "compiler/hir/infer.h"
#include "runtime/base/format.h"

namespace onrt::hir {

Result<ShapeId> infer_parameter(const InferContext& context) { return context.given_id(); }

Result<ShapeId> infer_constant(const InferContext& context) {
  const Shape& shape = context.given();
  const Attribute* literal = context.find(AttributeKey::kLiteral);
  if (!shape.is_array()) {
    return context.wrong(format("shape: expected an array, found {}; make a tuple of constants",
                                context.text(context.given_id())));
  }
  const size_t found = literal == nullptr ? 0 : literal->data.size();
  if (found != static_cast<size_t>(shape.byte_size)) {
    return context.wrong(format("literal: expected {} bytes for {}, found {}", shape.byte_size,
                                context.text(context.given_id()), found));
  }
  if (shape.dtype == Dtype::kPred) {
    for (size_t i = 0; i < found; ++i) {
      if (std::to_integer<int>(literal->data[i]) > 1) {
        return context.wrong(format("literal: expected pred bytes 0 or 1, found {} at {}",
                                    std::to_integer<int>(literal->data[i]), i));
      }
    }
  }
  return context.given_id();
}

Result<ShapeId> infer_copy(const InferContext& context) { return context.operand_id(0); }

Result<ShapeId> infer_opt_barrier(const InferContext& context) { return context.operand_id(0); }

Result<ShapeId> infer_tuple(const InferContext& context) {
  std::vector<ShapeId> elements(context.operand_count());
  for (size_t i = 0; i < elements.size(); ++i) {
    elements[i] = context.operand_id(i);
  }
  Result<ShapeId> made = context.shapes().tuple(elements);
  if (!made.ok()) {
    return context.wrong(made.status().message());
  }
  return made;
}

Result<ShapeId> infer_get_tuple_element(const InferContext& context) {
  const Shape& operand = context.operand(0);
  if (!operand.is_tuple()) {
    return context.wrong(
        format("operand 0: expected a tuple, found {}", context.text(context.operand_id(0))));
  }
  ONRT_ASSIGN_OR_RETURN(const auto index, context.exactly(AttributeKey::kTupleIndex, 1));
  if (index[0] < 0 || static_cast<size_t>(index[0]) >= operand.elements.size()) {
    return context.wrong(format("attribute index: expected one of [0, {}), found {}",
                                operand.elements.size(), index[0]));
  }
  return operand.elements[static_cast<size_t>(index[0])];
}

Result<ShapeId> infer_call(const InferContext& context) {
  ONRT_ASSIGN_OR_RETURN(const Computation* callee, context.callee());
  std::vector<ShapeId> parameters(context.operand_count());
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i] = context.operand_id(i);
  }
  const ShapeId result = context.graph()[callee->root].shape;
  ONRT_RETURN_IF_ERROR(context.require_signature(*callee, parameters, result));
  return result;
}

// The computation maps scalars to a scalar; attribute dimensions, if given, must be 0..rank-1.
Result<ShapeId> infer_map(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  ONRT_ASSIGN_OR_RETURN(const Computation* callee, context.callee());
  const Shape& first = context.operand(0);
  std::vector<ShapeId> parameters(context.operand_count());
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!std::equal(first.dims.begin(), first.dims.end(), context.operand(i).dims.begin(),
                    context.operand(i).dims.end())) {
      return context.wrong(format("operand {}: expected dimensions {}, found {}", i,
                                  dims_text(first.dims), context.text(context.operand_id(i))));
    }
    ONRT_ASSIGN_OR_RETURN(parameters[i], context.array(context.operand(i).dtype, {}));
  }
  const Shape& root = context.graph().shape_of(callee->root);
  if (!root.is_scalar()) {
    return context.wrong(format("computation '{}', root: expected a scalar, found {}", callee->name,
                                context.text(context.graph()[callee->root].shape)));
  }
  ONRT_RETURN_IF_ERROR(
      context.require_signature(*callee, parameters, context.graph()[callee->root].shape));
  ONRT_ASSIGN_OR_RETURN(const auto dims,
                        context.dimensions(AttributeKey::kDimensions, first.rank()));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != static_cast<int64_t>(i) || dims.size() != first.rank()) {
      return context.wrong(format("attribute dimensions: expected 0..{} in order, found {}",
                                  first.rank(), dims_text(dims)));
    }
  }
  return context.array(root.dtype, first.dims);
}

}  // namespace onrt::hir
