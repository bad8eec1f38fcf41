// SPDX-License-Identifier: Apache-2.0
#include "emulator/isa/scalar_op.h"

#include <array>

namespace onrt::ncx {
namespace {

constexpr std::array kTable = {
#define ONRT_SCALAR_OP(name, text, arity, operands, result) \
  ScalarOpInfo{ScalarOp::k##name, text, arity, operands, ResultRule::result},
#include "emulator/isa/semantics.def"
#undef ONRT_SCALAR_OP
};

bool all_equal(std::span<const Dtype> types) {
  for (const Dtype type : types) {
    if (type != types.front()) {
      return false;
    }
  }
  return true;
}

}  // namespace

const ScalarOpInfo* find_scalar_op(uint32_t number) {
  return number < kTable.size() ? &kTable[number] : nullptr;
}

const ScalarOpInfo* find_scalar_op(std::string_view name) {
  for (const ScalarOpInfo& row : kTable) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

const ScalarOpInfo& scalar_op_info(ScalarOp op) { return kTable[static_cast<size_t>(op)]; }

uint8_t dtype_kind(Dtype dtype) {
  if (is_floating(dtype)) {
    return kF;
  }
  if (dtype == Dtype::kPred) {
    return kP;
  }
  return is_signed_integer(dtype) ? kS : kU;
}

bool scalar_op_typed(ScalarOp op, std::span<const Dtype> operands, Dtype result) {
  const ScalarOpInfo& info = scalar_op_info(op);
  if (operands.size() != info.arity) {
    return false;
  }
  if (info.result == ResultRule::kLeaf) {
    return (info.operand_kinds & dtype_kind(result)) != 0;
  }
  if (info.result == ResultRule::kSelect) {
    return operands[0] == Dtype::kPred && operands[1] == result && operands[2] == result;
  }
  if (!all_equal(operands) || (info.operand_kinds & dtype_kind(operands[0])) == 0) {
    return false;
  }
  switch (info.result) {
    case ResultRule::kSame:
      return result == operands[0];
    case ResultRule::kPred:
      return result == Dtype::kPred;
    case ResultRule::kBitcast:
      return dtype_bytes(result) == dtype_bytes(operands[0]);
    default:
      return true;
  }
}

bool is_combiner(ScalarOp op, Dtype type) {
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kMultiply:
    case ScalarOp::kMinimum:
    case ScalarOp::kMaximum:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
      return (scalar_op_info(op).operand_kinds & dtype_kind(type)) != 0;
    default:
      return false;
  }
}

}  // namespace onrt::ncx
