// SPDX-License-Identifier: Apache-2.0
// The scalar operation behind an HLO operation that works element by element.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/hir/graph.h"
#include "emulator/isa/scalar_op.h"

namespace onrt::hir {

// Operation of a compare direction; nothing for an unknown text.
std::optional<ncx::ScalarOp> comparison(std::string_view direction, bool total_order);

// Nothing if the operation does not compute result elements from operand elements at the same
// place: also for bitcast-convert between types of different width. `operand` is the element type
// of operand 0.
std::optional<ncx::ScalarOp> scalar_op(Opcode opcode, std::span<const Attribute> attributes,
                                       Dtype operand, Dtype result);

// MicroOp::immediate of that operation.
uint64_t scalar_immediate(Opcode opcode, std::span<const Attribute> attributes);

}  // namespace onrt::hir
