// SPDX-License-Identifier: Apache-2.0
// Loops and branches: what to_apply names runs as it is written.
#include "compiler/hir/status.h"
#include "compiler/reference/interpreter.h"

namespace onrt::reference {
namespace {

hir::ComputationId callee(const Operation& operation, size_t i) {
  return static_cast<hir::ComputationId>(operation.ints(hir::AttributeKey::kCalled)[i]);
}

}  // namespace

Status evaluate_while(Operation& operation) {
  Budget full;
  Budget& budget = operation.budget == nullptr ? full : *operation.budget;
  std::vector<Tensors> state(1);
  for (const Tensor* operand : operation.operands) {
    state[0].push_back(*operand);
  }
  for (;;) {
    ONRT_ASSIGN_OR_RETURN(const Tensors predicate,
                          interpret(operation.graph, callee(operation, 0), state, &budget));
    if (predicate[0].get(0) == 0) {
      operation.results = std::move(state[0]);
      return ok_status();
    }
    if (--budget.iterations < 0) {
      return hir::unsupported("the interpreter's budget of loop turns is used up");
    }
    ONRT_ASSIGN_OR_RETURN(state[0],
                          interpret(operation.graph, callee(operation, 1), state, &budget));
  }
}

Status evaluate_conditional(Operation& operation) {
  const auto branches = operation.ints(hir::AttributeKey::kCalled);
  const Tensor& selector = operation.operand(0);
  size_t taken = branches.size() - 1;
  if (selector.dtype == Dtype::kPred) {
    taken = selector.get(0) != 0 ? 0 : 1;
  } else if (const int64_t number = selector.integer(0);
             number >= 0 && number < static_cast<int64_t>(branches.size())) {
    taken = static_cast<size_t>(number);
  }
  // Operands are arrays: those of each branch's parameter in turn.
  size_t next = 1;
  for (size_t i = 0; i <= taken; ++i) {
    const hir::ValueId parameter = operation.graph.computation(callee(operation, i)).parameters[0];
    Tensors argument = make_tensors(operation.graph, operation.graph[parameter].shape);
    for (Tensor& tensor : argument) {
      tensor = operation.operand(next++);
    }
    if (i == taken) {
      const std::vector<Tensors> arguments = {std::move(argument)};
      ONRT_ASSIGN_OR_RETURN(operation.results, interpret(operation.graph, callee(operation, i),
                                                         arguments, operation.budget));
    }
  }
  return ok_status();
}

}  // namespace onrt::reference
