// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/hir/graph.h"

namespace onrt::hir {

// Operations whose result lowering reads as a view of the operand's memory.
inline bool is_view(Opcode opcode) {
  switch (opcode) {
    case Opcode::kBitcast:
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kReverse:
    case Opcode::kSlice:
    case Opcode::kTranspose:
      return true;
    default:
      return false;
  }
}

}  // namespace onrt::hir
