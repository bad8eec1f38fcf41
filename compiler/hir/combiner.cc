// SPDX-License-Identifier: Apache-2.0
#include "compiler/hir/combiner.h"

#include "compiler/hir/scalar.h"

namespace onrt::hir {
namespace {

// Follows copies.
ValueId source_of(const Graph& graph, ValueId value) {
  while (graph[value].opcode == Opcode::kCopy ||
         graph[value].opcode == Opcode::kOptimizationBarrier) {
    value = graph[value].operands[0];
  }
  return value;
}

}  // namespace

std::vector<ncx::ScalarOp> simple_combiners(const Graph& graph, ComputationId id) {
  const Computation& computation = graph.computation(id);
  const size_t n = computation.parameters.size() / 2;
  const ValueId root = source_of(graph, computation.root);
  std::vector<ncx::ScalarOp> made;
  for (size_t i = 0; i < n; ++i) {
    ValueId result = root;
    if (graph.shape_of(root).is_tuple()) {
      if (graph[root].opcode != Opcode::kTuple) {
        return {};
      }
      result = source_of(graph, graph[root].operands[i]);
    }
    const Instruction& op = graph[result];
    const OpcodeInfo& info = opcode_info(op.opcode);
    if (!info.elementwise || op.operands.size() != 2 ||
        !ncx::is_combiner(info.scalar, graph.shape_of(result).dtype)) {
      return {};
    }
    const ValueId a = source_of(graph, op.operands[0]);
    const ValueId b = source_of(graph, op.operands[1]);
    const ValueId current = computation.parameters[i];
    const ValueId next = computation.parameters[n + i];
    if (!(a == current && b == next) && !(a == next && b == current)) {
      return {};
    }
    made.push_back(info.scalar);
  }
  return made;
}

}  // namespace onrt::hir
