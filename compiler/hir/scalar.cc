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

std::optional<ncx::ScalarOp> scalar_op(Opcode opcode, std::span<const Attribute> attributes,
                                       Dtype operand, Dtype result) {
  using ncx::ScalarOp;
  const OpcodeInfo& info = opcode_info(opcode);
  if (info.elementwise) {
    return info.scalar;
  }
  switch (opcode) {
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
      const bool total =
          find(attributes, AttributeKey::kTotalOrder) != nullptr && is_floating(operand);
      return comparison(find(attributes, AttributeKey::kComparison)->text(), total);
    }
    case Opcode::kBitcastConvert:
      return dtype_bytes(operand) == dtype_bytes(result) ? std::optional(ScalarOp::kBitcastConvert)
                                                         : std::nullopt;
    default:
      return std::nullopt;
  }
}

uint64_t scalar_immediate(Opcode opcode, std::span<const Attribute> attributes) {
  if (opcode != Opcode::kReducePrecision) {
    return 0;
  }
  const auto bits = find(attributes, AttributeKey::kExponentMantissa)->ints;
  return static_cast<uint64_t>(bits[0]) | static_cast<uint64_t>(bits[1]) << 8;
}

}  // namespace onrt::hir
