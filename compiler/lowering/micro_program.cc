// SPDX-License-Identifier: Apache-2.0
// Computations over scalars (combiners) as micro-programs.
#include <unordered_map>

#include "compiler/hir/scalar.h"
#include "compiler/hir/status.h"
#include "compiler/lowering/lowerer.h"
#include "runtime/base/format.h"

namespace onrt::lowering {
namespace {

using hir::Opcode;
using hir::ValueId;

using Registers = std::vector<uint16_t>;  // one per element of a tuple

class ComputationWriter {
 public:
  ComputationWriter(const Flat& flat, const Node& user) : flat_(flat), user_(user) {}

  // `arguments[i]`: registers of parameter i. `inputs`: registers of the micro-program's inputs.
  Result<Registers> write(hir::ComputationId id, const std::vector<Registers>& arguments) {
    const hir::Graph& graph = flat_.graph();
    std::unordered_map<ValueId, Registers> values;
    for (const ValueId value : graph.computation(id).instructions) {
      const hir::Instruction& instruction = graph[value];
      std::vector<Registers> operands;
      for (const ValueId operand : instruction.operands) {
        operands.push_back(values.at(operand));
      }
      ONRT_ASSIGN_OR_RETURN(values[value],
                            write_instruction(value, instruction, operands, arguments));
    }
    return values.at(graph.computation(id).root);
  }

  ncx::MicroProgram program;
  uint16_t inputs = 0;

 private:
  Result<Registers> write_instruction(ValueId value, const hir::Instruction& instruction,
                                      const std::vector<Registers>& operands,
                                      const std::vector<Registers>& arguments) {
    switch (instruction.opcode) {
      case Opcode::kParameter:
        return arguments[static_cast<size_t>(
            instruction.ints(hir::AttributeKey::kParameterNumber)[0])];
      case Opcode::kTuple: {
        Registers made;
        for (const Registers& operand : operands) {
          made.insert(made.end(), operand.begin(), operand.end());
        }
        return made;
      }
      case Opcode::kGetTupleElement:
        if (flat_.graph().shape_of(instruction.operands[0]).depth > 1) {
          return refused(value);
        }
        return Registers{
            operands[0][static_cast<size_t>(instruction.ints(hir::AttributeKey::kTupleIndex)[0])]};
      case Opcode::kCopy:
      case Opcode::kOptimizationBarrier:
        return operands[0];
      case Opcode::kReshape:
      case Opcode::kBroadcast:
        return flat_.graph().shape_of(value).is_scalar() ? Result<Registers>(operands[0])
                                                         : refused(value);
      case Opcode::kCall:
        return write(
            static_cast<hir::ComputationId>(instruction.ints(hir::AttributeKey::kCalled)[0]),
            operands);
      default:
        return write_scalar(value, instruction, operands);
    }
  }

  Result<Registers> write_scalar(ValueId value, const hir::Instruction& instruction,
                                 const std::vector<Registers>& operands) {
    const hir::Graph& graph = flat_.graph();
    const hir::Shape& shape = graph.shapes()[instruction.shape];
    ncx::MicroOp op;
    std::optional<ncx::ScalarOp> scalar;
    if (!shape.is_scalar()) {
      return refused(value);
    }
    if (instruction.opcode == Opcode::kConstant) {
      scalar = ncx::ScalarOp::kConstant;
      const auto data = instruction.find(hir::AttributeKey::kLiteral)->data;
      std::copy(data.begin(), data.end(), reinterpret_cast<std::byte*>(&op.immediate));
    } else if (!operands.empty()) {
      scalar = hir::scalar_op(instruction.opcode, instruction.attributes,
                              graph.shape_of(instruction.operands[0]).dtype, shape.dtype);
      op.immediate = hir::scalar_immediate(instruction.opcode, instruction.attributes);
    }
    if (!scalar) {
      return refused(value);
    }
    op.op = *scalar;
    op.type = shape.dtype;
    for (size_t i = 0; i < operands.size(); ++i) {
      op.operands[i] = operands[i][0];
    }
    if (program.ops.size() >= ncx::kMaxMicroOps) {
      return hir::unsupported(format("{}: its computation has more than {} scalar operations",
                                     flat_.describe(user_), ncx::kMaxMicroOps));
    }
    program.ops.push_back(op);
    return Registers{static_cast<uint16_t>(inputs + program.ops.size() - 1)};
  }

  Status refused(ValueId value) const {
    return hir::unsupported(format("{}: {} is not a scalar operation that a combiner may use",
                                   flat_.describe(user_), hir::describe(flat_.graph(), value)));
  }

  const Flat& flat_;
  const Node& user_;
};

}  // namespace

Result<ncx::MicroProgram> Lowerer::micro_program(const Node& node, hir::ComputationId computation) {
  ComputationWriter writer(flat_, node);
  std::vector<Registers> arguments;
  for (size_t i = 0; i < flat_.graph().computation(computation).parameters.size(); ++i) {
    arguments.push_back({static_cast<uint16_t>(i)});
  }
  writer.inputs = static_cast<uint16_t>(arguments.size());
  if (arguments.size() > ncx::kMaxMicroInputs || arguments.size() / 2 > ncx::kMaxOutputs) {
    return hir::unsupported(
        format("{}: more than {} arrays at once", flat_.describe(node), ncx::kMaxOutputs));
  }
  ONRT_ASSIGN_OR_RETURN(writer.program.results, writer.write(computation, arguments));
  return std::move(writer.program);
}

}  // namespace onrt::lowering
