// SPDX-License-Identifier: Apache-2.0
#include "compiler/reference/interpreter.h"

#include <array>
#include <unordered_map>

#include "compiler/hir/status.h"
#include "runtime/base/format.h"

namespace onrt::reference {
namespace {

using hir::Opcode;

using EvaluateFunction = Status (*)(Operation&);

Status evaluate_refused(Operation& operation) {
  return hir::internal(format("opcode '{}' has no evaluation", opcode_name(operation.opcode)));
}

constexpr std::array<EvaluateFunction, hir::kOpcodes> kTable = {
#define ONRT_ELEMENTWISE(name, text, operands, scalar) evaluate_elementwise,
#define ONRT_OP(name, text, least, most, function) evaluate_##function,
#define ONRT_UNSUPPORTED(name, text, reason) evaluate_refused,
#include "compiler/hir/opcodes.def"
};

void append_tensors(const hir::Graph& graph, hir::ShapeId id, Tensors& out) {
  const hir::Shape& shape = graph.shapes()[id];
  for (const hir::ShapeId element : shape.elements) {
    append_tensors(graph, element, out);  // depth is at most hir::kMaxTupleDepth
  }
  if (shape.is_array()) {
    out.push_back({shape.dtype,
                   {shape.dims.begin(), shape.dims.end()},
                   std::vector<std::byte>(static_cast<size_t>(shape.byte_size))});
  }
}

}  // namespace

Tensors make_tensors(const hir::Graph& graph, hir::ShapeId shape) {
  Tensors made;
  append_tensors(graph, shape, made);
  return made;
}

Status evaluate(Operation& operation) {
  return kTable[static_cast<size_t>(operation.opcode)](operation);
}

Result<Tensors> interpret(const hir::Graph& graph, hir::ComputationId id,
                          std::span<const Tensors> arguments, Budget* budget) {
  Budget full;
  budget = budget == nullptr ? &full : budget;
  const hir::Computation& computation = graph.computation(id);
  std::unordered_map<hir::ValueId, Tensors> values;
  std::unordered_map<hir::ValueId, int> uses;
  for (const hir::ValueId value : computation.instructions) {
    for (const hir::ValueId operand : graph[value].operands) {
      ++uses[operand];
    }
  }
  ++uses[computation.root];
  for (const hir::ValueId value : computation.instructions) {
    const hir::Instruction& instruction = graph[value];
    if (instruction.opcode == Opcode::kParameter) {
      values[value] =
          arguments[static_cast<size_t>(instruction.ints(hir::AttributeKey::kParameterNumber)[0])];
      continue;
    }
    Operation operation{graph, instruction.opcode, instruction.attributes, {}, {}, budget};
    for (const hir::ValueId operand : instruction.operands) {
      for (const Tensor& tensor : values[operand]) {
        operation.operands.push_back(&tensor);
      }
    }
    if (instruction.opcode == Opcode::kGetTupleElement) {
      // The arrays of the elements before it come first.
      const hir::Shape& shape = graph.shape_of(instruction.operands[0]);
      size_t before = 0;
      for (int64_t i = 0; i < operation.ints(hir::AttributeKey::kTupleIndex)[0]; ++i) {
        before += make_tensors(graph, shape.elements[static_cast<size_t>(i)]).size();
      }
      operation.operands.erase(operation.operands.begin(),
                               operation.operands.begin() + static_cast<ptrdiff_t>(before));
    }
    operation.results = make_tensors(graph, instruction.shape);
    Status status = evaluate(operation);
    if (!status.ok()) {
      return std::move(status).annotate(describe(graph, value));
    }
    values[value] = std::move(operation.results);
    for (const hir::ValueId operand : instruction.operands) {
      if (--uses[operand] == 0) {
        values.erase(operand);
      }
    }
  }
  return std::move(values[computation.root]);
}

}  // namespace onrt::reference
