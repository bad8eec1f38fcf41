// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fold.h"

#include <algorithm>

#include "compiler/hir/scalar.h"
#include "compiler/reference/interpreter.h"

namespace onrt::hir {
namespace {

// Larger constants cost more in the NEFF than their computation costs on the device.
constexpr size_t kMostBytes = 4096;

// Operations whose result is no larger than their operands, so that folding can't inflate a graph.
// Broadcast and iota stay as they are: instructions make them for free.
bool is_foldable(const Flat& flat, const Node& node) {
  switch (node.opcode) {
    case Opcode::kReshape:
    case Opcode::kTranspose:
    case Opcode::kSlice:
    case Opcode::kReverse:
    case Opcode::kConcatenate:
    case Opcode::kDynamicSlice:
    case Opcode::kBitcastConvert:
      return true;
    default:
      return !node.operands.empty() && node.results.size() == 1 &&
             scalar_op(node.opcode, node.attributes, flat.type(node.operands[0]).dtype,
                       node.results[0].dtype)
                 .has_value();
  }
}

}  // namespace

Status fold(const Flat& flat, Arena& arena, Node& node) {
  if (node.operands.empty() || node.results[0].bytes() > kMostBytes || !is_foldable(flat, node)) {
    return ok_status();
  }
  for (const Ref operand : node.operands) {
    if (flat[operand.node].opcode != Opcode::kConstant || flat.type(operand).bytes() > kMostBytes) {
      return ok_status();
    }
  }
  reference::Tensors operands;
  for (const Ref operand : node.operands) {
    const Type& type = flat.type(operand);
    const auto data = find(flat[operand.node].attributes, AttributeKey::kLiteral)->data;
    operands.push_back(
        {type.dtype, {type.dims.begin(), type.dims.end()}, {data.begin(), data.end()}});
  }
  reference::Operation operation{flat.graph(), node.opcode, node.attributes, {}, {}};
  for (const reference::Tensor& operand : operands) {
    operation.operands.push_back(&operand);
  }
  const Type& type = node.results[0];
  operation.results.push_back(
      {type.dtype, {type.dims.begin(), type.dims.end()}, std::vector<std::byte>(type.bytes())});
  ONRT_RETURN_IF_ERROR(evaluate(operation));
  const Attribute literal{
      AttributeKey::kLiteral, {}, arena.copy(std::span<const std::byte>(operation.result().data))};
  node.opcode = Opcode::kConstant;
  node.operands = {};
  node.attributes = arena.copy(std::span<const Attribute>(&literal, 1));
  return ok_status();
}

}  // namespace onrt::hir
