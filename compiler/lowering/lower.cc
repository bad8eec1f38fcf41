// SPDX-License-Identifier: Apache-2.0
// The dispatch, and operations that flattening has already resolved.
#include <array>

#include "compiler/hir/scalar.h"
#include "compiler/hir/status.h"
#include "compiler/lowering/lowerer.h"
#include "runtime/base/format.h"

namespace onrt::lowering {
namespace {

using LowerFunction = Status (*)(Lowerer&, const Node&, int32_t);

Status lower_refused(Lowerer& lowerer, const Node& node, int32_t /*index*/) {
  return hir::internal(format("{}: no lowering", lowerer.flat().describe(node)));
}

constexpr std::array<LowerFunction, hir::kOpcodes> kTable = {
#define ONRT_ELEMENTWISE(name, text, operands, scalar) lower_scalar_operation,
#define ONRT_OP(name, text, least, most, function) lower_##function,
#define ONRT_UNSUPPORTED(name, text, reason) lower_refused,
#include "compiler/hir/opcodes.def"
};

}  // namespace

Status lower(Lowerer& lowerer, const Node& node, int32_t index) {
  return kTable[static_cast<size_t>(node.opcode)](lowerer, node, index);
}

Status lower_scalar_operation(Lowerer& lowerer, const Node& node, int32_t index) {
  const Type& result = node.results[0];
  const auto op = hir::scalar_op(node.opcode, node.attributes, lowerer.type(node.operands[0]).dtype,
                                 result.dtype);
  const Micro::Op made{*op, result.dtype, {}, hir::scalar_immediate(node.opcode, node.attributes)};
  return lowerer.append_scalar(node, {index, 0}, made, node.operands);
}

#define ONRT_LOWER_AS_SCALAR(function)                                         \
  Status lower_##function(Lowerer& lowerer, const Node& node, int32_t index) { \
    return lower_scalar_operation(lowerer, node, index);                       \
  }
ONRT_LOWER_AS_SCALAR(clamp)
ONRT_LOWER_AS_SCALAR(compare)
ONRT_LOWER_AS_SCALAR(convert)
ONRT_LOWER_AS_SCALAR(is_finite)
ONRT_LOWER_AS_SCALAR(reduce_precision)
ONRT_LOWER_AS_SCALAR(select)
#undef ONRT_LOWER_AS_SCALAR

// Taken apart, inlined or left to users by hir::Flat and Lowerer::window().
#define ONRT_LOWER_NEVER(function)                                             \
  Status lower_##function(Lowerer& lowerer, const Node& node, int32_t index) { \
    return lower_refused(lowerer, node, index);                                \
  }
ONRT_LOWER_NEVER(parameter)
ONRT_LOWER_NEVER(constant)
ONRT_LOWER_NEVER(iota)
ONRT_LOWER_NEVER(copy)
ONRT_LOWER_NEVER(opt_barrier)
ONRT_LOWER_NEVER(tuple)
ONRT_LOWER_NEVER(get_tuple_element)
ONRT_LOWER_NEVER(call)
ONRT_LOWER_NEVER(map)
#undef ONRT_LOWER_NEVER

}  // namespace onrt::lowering
