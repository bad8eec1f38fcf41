// SPDX-License-Identifier: Apache-2.0
#include "compiler/hir/opcode.h"

#include <algorithm>
#include <array>

namespace onrt::hir {
namespace {

constexpr std::array<OpcodeInfo, kOpcodes> kTable = {{
#define ONRT_ELEMENTWISE(name, text, operands, scalar) \
  {text, operands, operands, true, ncx::ScalarOp::k##scalar, {}},
#define ONRT_OP(name, text, least, most, function) \
  {text, least, most, false, ncx::ScalarOp::kConstant, {}},
#define ONRT_UNSUPPORTED(name, text, reason) \
  {text, 0, 65536, false, ncx::ScalarOp::kConstant, reason},
#include "compiler/hir/opcodes.def"
}};

constexpr auto sorted_by_name() {
  std::array<uint8_t, kOpcodes> order{};
  for (int i = 0; i < kOpcodes; ++i) {
    order[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
  }
  std::sort(order.begin(), order.end(),
            [](uint8_t a, uint8_t b) { return kTable[a].name < kTable[b].name; });
  return order;
}

constexpr std::array<uint8_t, kOpcodes> kByName = sorted_by_name();

}  // namespace

const OpcodeInfo& opcode_info(Opcode opcode) { return kTable[static_cast<size_t>(opcode)]; }

int find_opcode(std::string_view name) {
  const auto* it = std::lower_bound(
      kByName.begin(), kByName.end(), name,
      [](uint8_t index, std::string_view wanted) { return kTable[index].name < wanted; });
  return it != kByName.end() && kTable[*it].name == name ? *it : -1;
}

}  // namespace onrt::hir
