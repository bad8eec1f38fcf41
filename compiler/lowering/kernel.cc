// SPDX-License-Identifier: Apache-2.0
#include "compiler/lowering/kernel.h"

namespace onrt::lowering {

Reg Micro::add_input(const Window& window) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == window) {
      return {Reg::List::kInput, static_cast<uint16_t>(i)};
    }
  }
  inputs.push_back(window);
  return {Reg::List::kInput, static_cast<uint16_t>(inputs.size() - 1)};
}

Reg Micro::add_op(const Op& op) {
  const bool leaf = op.op == ncx::ScalarOp::kConstant || op.op == ncx::ScalarOp::kIota;
  for (size_t i = 0; leaf && i < ops.size(); ++i) {
    if (ops[i].op == op.op && ops[i].type == op.type && ops[i].immediate == op.immediate) {
      return {Reg::List::kOp, static_cast<uint16_t>(i)};
    }
  }
  ops.push_back(op);
  return {Reg::List::kOp, static_cast<uint16_t>(ops.size() - 1)};
}

void Needed::mark(Reg reg) {
  if (reg.list == Reg::List::kOp) {
    ops[reg.index] = true;
  } else if (reg.list == Reg::List::kInput) {
    inputs[reg.index] = true;
  }
}

void Needed::close(const Micro& micro) {
  for (size_t i = micro.ops.size(); i-- > 0;) {
    if (ops[i]) {
      for (const Reg operand : micro.ops[i].operands) {
        mark(operand);
      }
    }
  }
}

}  // namespace onrt::lowering
