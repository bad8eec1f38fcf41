// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "emulator/isa/verify_parts.h"
#include "runtime/base/format.h"

namespace onrt::ncx {
namespace {

Status invalid(std::string message) { return Status(NRT_INVALID, std::move(message)); }

Dtype type_of(const MicroProgram& program, std::span<const Dtype> inputs, size_t reg) {
  return reg < inputs.size() ? inputs[reg] : program.ops[reg - inputs.size()].type;
}

Status check_micro_ops(const MicroProgram& program, std::span<const Dtype> inputs, int rank) {
  if (program.ops.size() > kMaxMicroOps) {
    return invalid(format("{} micro-ops where {} are allowed", program.ops.size(), kMaxMicroOps));
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const MicroOp& op = program.ops[i];
    const ScalarOpInfo& info = scalar_op_info(op.op);
    std::array<Dtype, 3> types{};
    for (int k = 0; k < info.arity; ++k) {
      if (op.operands[k] >= inputs.size() + i) {
        return invalid(format("micro-op {} ({}) reads register {}, which is not defined yet", i,
                              info.name, op.operands[k]));
      }
      types[k] = type_of(program, inputs, op.operands[k]);
    }
    if (!scalar_op_typed(op.op, {types.data(), info.arity}, op.type)) {
      return invalid(format("micro-op {} ({}) does not take {} to give {}", i, info.name,
                            info.arity == 0 ? "nothing" : dtype_name(types[info.arity - 1]),
                            dtype_name(op.type)));
    }
    if (op.op == ScalarOp::kIota && op.immediate >= static_cast<uint64_t>(rank)) {
      return invalid(format("micro-op {} counts along dimension {} of {}", i, op.immediate, rank));
    }
    const uint64_t exponent = op.immediate & 0xff;
    if (op.op == ScalarOp::kReducePrecision &&
        (exponent < 1 || exponent > 8 || (op.immediate >> 8) > 23)) {
      return invalid(format("micro-op {} reduces precision to {} exponent and {} mantissa bits", i,
                            exponent, op.immediate >> 8));
    }
  }
  return ok_status();
}

}  // namespace

Status verify_micro(const MicroProgram& program, std::span<const Dtype> inputs,
                    std::span<const Dtype> want, int rank, std::string_view what) {
  Status status = check_micro_ops(program, inputs, rank);
  if (status.ok() && program.results.size() != want.size()) {
    status =
        invalid(format("{} results where {} are expected", program.results.size(), want.size()));
  }
  for (size_t i = 0; status.ok() && i < want.size(); ++i) {
    const uint16_t reg = program.results[i];
    if (reg >= inputs.size() + program.ops.size()) {
      status = invalid(
          format("result {} is register {} of {}", i, reg, inputs.size() + program.ops.size()));
    } else if (type_of(program, inputs, reg) != want[i]) {
      status = invalid(format("result {} is {} where {} is expected", i,
                              dtype_name(type_of(program, inputs, reg)), dtype_name(want[i])));
    }
  }
  return std::move(status).annotate(what);
}

}  // namespace onrt::ncx
