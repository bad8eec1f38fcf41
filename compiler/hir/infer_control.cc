// SPDX-License-Identifier: Apache-2.0
// Shapes of loops and branches.
#include <array>

#include "compiler/hir/infer.h"
#include "runtime/base/format.h"

namespace onrt::hir {

// Attribute to_apply: the condition, then the body. Operand, the parameter of both and the body's
// result have one shape.
Result<ShapeId> infer_while(const InferContext& context) {
  ONRT_ASSIGN_OR_RETURN(const auto callees, context.callees(2));
  const std::array<ShapeId, 1> state = {context.operand_id(0)};
  ONRT_ASSIGN_OR_RETURN(const ShapeId predicate, context.array(Dtype::kPred, {}));
  ONRT_RETURN_IF_ERROR(context.require_signature(*callees[0], state, predicate));
  ONRT_RETURN_IF_ERROR(context.require_signature(*callees[1], state, state[0]));
  return state[0];
}

// Operand 0 selects: pred[] true the first of two branches, s32[] the branch of that number, any
// other number the last one. Operand i + 1 is the parameter of branch i.
Result<ShapeId> infer_conditional(const InferContext& context) {
  const Shape& selector = context.operand(0);
  const bool two_way = selector.is_scalar() && selector.dtype == Dtype::kPred;
  if (!two_way && !(selector.is_scalar() && selector.dtype == Dtype::kS32)) {
    return context.wrong(format("operand 0: expected pred[] or s32[], found {}",
                                context.text(context.operand_id(0))));
  }
  const size_t branches = context.operand_count() - 1;
  if (two_way && branches != 2) {
    return context.wrong(format("expected 2 branches of a choice by pred[], found {}", branches));
  }
  ONRT_ASSIGN_OR_RETURN(const auto callees, context.callees(branches));
  const ShapeId result = context.graph()[callees[0]->root].shape;
  for (size_t i = 0; i < branches; ++i) {
    const std::array<ShapeId, 1> parameter = {context.operand_id(i + 1)};
    ONRT_RETURN_IF_ERROR(context.require_signature(*callees[i], parameter, result));
  }
  return result;
}

}  // namespace onrt::hir
