// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/pass_through.h"

namespace onrt::hir {

size_t leaf_count(const ShapeTable& shapes, ShapeId id) {
  const Shape& shape = shapes[id];
  return shape.is_tuple() ? leaves_before(shapes, shape, shape.elements.size()) : 1;
}

size_t leaves_before(const ShapeTable& shapes, const Shape& tuple, size_t index) {
  size_t count = 0;
  for (size_t i = 0; i < index; ++i) {
    count += leaf_count(shapes, tuple.elements[i]);  // depth is at most kMaxTupleDepth
  }
  return count;
}

const std::vector<int32_t>& PassThrough::of(ComputationId id) {
  if (const auto found = known_.find(id); found != known_.end()) {
    return found->second;
  }
  const Computation& computation = graph_.computation(id);
  std::unordered_map<ValueId, Sources> values;  // absent: no array of it is a parameter's
  int32_t next = 0;
  for (const ValueId parameter : computation.parameters) {
    Sources& sources = values[parameter];
    for (size_t n = leaf_count(graph_.shapes(), graph_[parameter].shape); n > 0; --n) {
      sources.push_back(next++);
    }
  }
  for (const ValueId value : computation.instructions) {
    if (Sources sources = of_instruction(graph_[value], values); !sources.empty()) {
      values.emplace(value, std::move(sources));
    }
  }
  const auto root = values.find(computation.root);
  Sources result = root != values.end()
                       ? root->second
                       : Sources(leaf_count(graph_.shapes(), graph_[computation.root].shape), -1);
  return known_.emplace(id, std::move(result)).first->second;
}

PassThrough::Sources PassThrough::of_instruction(
    const Instruction& instruction, const std::unordered_map<ValueId, Sources>& values) {
  Sources operands;
  const auto append = [&](ValueId value) {
    const auto found = values.find(value);
    if (found != values.end()) {
      operands.insert(operands.end(), found->second.begin(), found->second.end());
    } else {
      operands.resize(operands.size() + leaf_count(graph_.shapes(), graph_[value].shape), -1);
    }
  };
  switch (instruction.opcode) {
    case Opcode::kCopy:
    case Opcode::kOptimizationBarrier:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kCall:
    case Opcode::kWhile:
      break;
    default:
      return {};
  }
  for (const ValueId operand : instruction.operands) {
    append(operand);
  }
  const auto called = instruction.ints(AttributeKey::kCalled);
  switch (instruction.opcode) {
    case Opcode::kGetTupleElement: {
      const Shape& shape = graph_.shape_of(instruction.operands[0]);
      const auto index = static_cast<size_t>(instruction.ints(AttributeKey::kTupleIndex)[0]);
      const size_t begin = leaves_before(graph_.shapes(), shape, index);
      const size_t count = leaf_count(graph_.shapes(), shape.elements[index]);
      return {operands.begin() + static_cast<ptrdiff_t>(begin),
              operands.begin() + static_cast<ptrdiff_t>(begin + count)};
    }
    case Opcode::kCall:
      return through(static_cast<ComputationId>(called[0]), operands);
    case Opcode::kWhile: {
      const Sources& body = of(static_cast<ComputationId>(called[1]));
      for (size_t i = 0; i < operands.size(); ++i) {
        operands[i] = body[i] == static_cast<int32_t>(i) ? operands[i] : -1;
      }
      return operands;
    }
    default:
      return operands;
  }
}

PassThrough::Sources PassThrough::through(ComputationId callee, const Sources& arguments) {
  Sources made;
  for (const int32_t source : of(callee)) {  // calls are at most kMaxCallDepth deep
    made.push_back(source < 0 ? -1 : arguments[static_cast<size_t>(source)]);
  }
  return made;
}

}  // namespace onrt::hir
