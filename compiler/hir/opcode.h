// SPDX-License-Identifier: Apache-2.0
// The opcode table: opcodes.def as data.
#pragma once

#include <cstdint>
#include <string_view>

#include "emulator/isa/scalar_op.h"

namespace onrt::hir {

enum class Opcode : uint8_t {
#define ONRT_ELEMENTWISE(name, text, operands, scalar) k##name,
#define ONRT_OP(name, text, least, most, function) k##name,
#define ONRT_UNSUPPORTED(name, text, reason) k##name,
#include "compiler/hir/opcodes.def"
};

inline constexpr int kOpcodes = 0
#define ONRT_ELEMENTWISE(name, text, operands, scalar) +1
#define ONRT_OP(name, text, least, most, function) +1
#define ONRT_UNSUPPORTED(name, text, reason) +1
#include "compiler/hir/opcodes.def"
    ;

struct OpcodeInfo {
  std::string_view name;  // HLO text
  int least_operands;
  int most_operands;
  bool elementwise;          // an ONRT_ELEMENTWISE row
  ncx::ScalarOp scalar;      // of an ONRT_ELEMENTWISE row
  std::string_view refusal;  // reason of an ONRT_UNSUPPORTED row; else empty
};

const OpcodeInfo& opcode_info(Opcode opcode);
inline std::string_view opcode_name(Opcode opcode) { return opcode_info(opcode).name; }

// -1 if there is none.
int find_opcode(std::string_view name);

}  // namespace onrt::hir
