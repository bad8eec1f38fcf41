// SPDX-License-Identifier: Apache-2.0
// Names and typing of the scalar operations: the table of semantics.def as data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/base/dtype.h"

namespace onrt::ncx {

enum class ScalarOp : uint8_t {
#define ONRT_SCALAR_OP(name, text, arity, operands, result) k##name,
#include "emulator/isa/semantics.def"
#undef ONRT_SCALAR_OP
};
inline constexpr int kScalarOps = 0
#define ONRT_SCALAR_OP(name, text, arity, operands, result) +1
#include "emulator/isa/semantics.def"
#undef ONRT_SCALAR_OP
    ;

enum class ResultRule : uint8_t { kSame, kPred, kConvert, kBitcast, kSelect, kLeaf };

struct ScalarOpInfo {
  ScalarOp op;
  std::string_view name;
  uint8_t arity;
  uint8_t operand_kinds;  // bits kF kS kU kP
  ResultRule result;
};
inline constexpr uint8_t kF = 1, kS = 2, kU = 4, kP = 8;

// Null for a number that is not in the table.
const ScalarOpInfo* find_scalar_op(uint32_t number);
const ScalarOpInfo* find_scalar_op(std::string_view name);
// For an op that is known to be valid.
const ScalarOpInfo& scalar_op_info(ScalarOp op);

uint8_t dtype_kind(Dtype dtype);  // one of kF kS kU kP

// True if `op` takes these operand types and gives `result`.
bool scalar_op_typed(ScalarOp op, std::span<const Dtype> operands, Dtype result);

// True for the ops that Reduce::Accumulator::combiner may hold, for values of this type.
bool is_combiner(ScalarOp op, Dtype type);

}  // namespace onrt::ncx
