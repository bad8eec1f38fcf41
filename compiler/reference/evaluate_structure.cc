// SPDX-License-Identifier: Apache-2.0
#include "compiler/hir/status.h"
#include "compiler/reference/interpreter.h"

namespace onrt::reference {
namespace {

// Results are the operands, in order.
Status pass_on(Operation& operation) {
  for (size_t i = 0; i < operation.results.size(); ++i) {
    operation.results[i] = operation.operand(i);
  }
  return ok_status();
}

}  // namespace

Status evaluate_parameter(Operation& /*operation*/) {
  return hir::internal("a parameter is a value already");
}

Status evaluate_constant(Operation& operation) {
  const auto data = find(operation.attributes, hir::AttributeKey::kLiteral)->data;
  operation.result().data.assign(data.begin(), data.end());
  return ok_status();
}

Status evaluate_copy(Operation& operation) { return pass_on(operation); }
Status evaluate_opt_barrier(Operation& operation) { return pass_on(operation); }
Status evaluate_tuple(Operation& operation) { return pass_on(operation); }
// interpret() leaves out the arrays of earlier elements.
Status evaluate_get_tuple_element(Operation& operation) { return pass_on(operation); }

Status evaluate_call(Operation& operation) {
  const hir::Computation& callee = operation.graph.computation(operation.callee());
  std::vector<Tensors> arguments;
  size_t next = 0;
  for (const hir::ValueId parameter : callee.parameters) {
    Tensors argument = make_tensors(operation.graph, operation.graph[parameter].shape);
    for (Tensor& tensor : argument) {
      tensor = operation.operand(next++);
    }
    arguments.push_back(std::move(argument));
  }
  ONRT_ASSIGN_OR_RETURN(operation.results, interpret(operation.graph, operation.callee(), arguments,
                                                     operation.budget));
  return ok_status();
}

}  // namespace onrt::reference
