// SPDX-License-Identifier: Apache-2.0
#include "compiler/hir/scalar.h"

namespace onrt::hir {

std::optional<ncx::ScalarOp> comparison(std::string_view direction, bool total_order) {
  using ncx::ScalarOp;
  struct Row {
    std::string_view direction;
    ScalarOp partial;
    ScalarOp total;
  };
  static constexpr Row kRows[] = {
      {"EQ", ScalarOp::kCompareEq, ScalarOp::kCompareTotalEq},
      {"NE", ScalarOp::kCompareNe, ScalarOp::kCompareTotalNe},
      {"LT", ScalarOp::kCompareLt, ScalarOp::kCompareTotalLt},
      {"LE", ScalarOp::kCompareLe, ScalarOp::kCompareTotalLe},
      {"GT", ScalarOp::kCompareGt, ScalarOp::kCompareTotalGt},
      {"GE", ScalarOp::kCompareGe, ScalarOp::kCompareTotalGe},
  };
  for (const Row& row : kRows) {
    if (row.direction == direction) {
      return total_order ? row.total : row.partial;
    }
  }
  return std::nullopt;
}

std::optional<ncx::ScalarOp> scalar_op(const Graph& graph, const Instruction& instruction) {
  using ncx::ScalarOp;
  const OpcodeInfo& info = opcode_info(instruction.opcode);
  if (info.elementwise) {
    return info.scalar;
  }
  switch (instruction.opcode) {
    case Opcode::kClamp:
      return ScalarOp::kClamp;
    case Opcode::kSelect:
      return ScalarOp::kSelect;
    case Opcode::kConvert:
      return ScalarOp::kConvert;
    case Opcode::kIsFinite:
      return ScalarOp::kIsFinite;
    case Opcode::kReducePrecision:
      return ScalarOp::kReducePrecision;
    case Opcode::kCompare: {
      const bool total = instruction.find(AttributeKey::kTotalOrder) != nullptr &&
                         is_floating(graph.shape_of(instruction.operands[0]).dtype);
      return comparison(instruction.find(AttributeKey::kComparison)->text(), total);
    }
    case Opcode::kBitcastConvert: {
      const Dtype from = graph.shape_of(instruction.operands[0]).dtype;
      const Dtype to = graph.shapes()[instruction.shape].dtype;
      return dtype_bytes(from) == dtype_bytes(to) ? std::optional(ScalarOp::kBitcastConvert)
                                                  : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

uint64_t scalar_immediate(const Instruction& instruction) {
  if (instruction.opcode != Opcode::kReducePrecision) {
    return 0;
  }
  const auto bits = instruction.ints(AttributeKey::kExponentMantissa);
  return static_cast<uint64_t>(bits[0]) | static_cast<uint64_t>(bits[1]) << 8;
}

}  // namespace onrt::hir
