// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/testing/random_program.h"

#include <algorithm>

#include "emulator/exec/testing/oracle.h"
#include "emulator/exec/thread_pool.h"
#include "emulator/isa/encoding.h"
#include "runtime/base/format.h"

namespace onrt::testing {
namespace {

using ncx::MicroOp;
using ncx::ScalarOp;

constexpr Dtype kTypes[] = {
#define ONRT_DTYPE(name, text, bytes, nrt, xla) Dtype::k##name,
#include "runtime/base/dtype.def"
#undef ONRT_DTYPE
};

// Sign and payload of a NaN are unspecified; these ops would make them visible.
bool shows_nan_bits(ScalarOp op) {
  return op == ScalarOp::kBitcastConvert ||
         (op >= ScalarOp::kCompareTotalEq && op <= ScalarOp::kCompareTotalGe);
}

// Views that the program writes.
std::vector<ncx::View> outputs_of(const ncx::Payload& payload) {
  return std::visit(
      [](const auto& op) -> std::vector<ncx::View> {
        if constexpr (requires { op.outputs; }) {
          return op.outputs;
        } else if constexpr (requires { op.output; }) {
          return {op.output};
        } else if constexpr (requires { op.destination; }) {
          return {op.destination};
        } else if constexpr (requires { op.pieces; }) {
          std::vector<ncx::View> views;
          for (const auto& piece : op.pieces) {
            views.push_back(piece.destination);
          }
          return views;
        } else {
          return {};
        }
      },
      payload);
}

std::string difference(const ncx::Program& program, Memory& got, Memory& want) {
  for (const ncx::Instruction& instruction : program.blocks[0].instructions) {
    for (const ncx::View& view : outputs_of(instruction.payload)) {
      const auto a = elements(view, got);
      const auto b = elements(view, want);
      if (a != b) {
        const auto width = static_cast<int64_t>(dtype_bytes(view.dtype));
        const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
        return format("element {} of {} of slot {} differs", at / width,
                      a.size() / static_cast<size_t>(width), view.slot);
      }
    }
  }
  return "";
}

}  // namespace

Dtype ProgramBuilder::any_type() { return kTypes[below(std::size(kTypes))]; }

Dtype ProgramBuilder::any_float() {
  for (;;) {
    const Dtype dtype = any_type();
    if (is_floating(dtype)) {
      return dtype;
    }
  }
}

Dtype ProgramBuilder::any_integer() {
  for (;;) {
    const Dtype dtype = any_type();
    if (is_integer(dtype)) {
      return dtype;
    }
  }
}

void ProgramBuilder::add_ops(ncx::MicroProgram& program, std::vector<Dtype>& types, int rank,
                             size_t most) {
  for (uint32_t i = 0, n = below(200); i < n && program.ops.size() < most; ++i) {
    const size_t before = program.ops.size();
    if (add_op(program, types, rank) && shows_nan_bits(program.ops[before].op)) {
      program.ops.pop_back();
      types.pop_back();
    }
  }
}

ncx::View ProgramBuilder::view(ncx::Program& program, Dtype dtype, std::span<const int64_t> dims,
                               ncx::SlotUsage usage) {
  ncx::View view;
  view.slot = static_cast<uint16_t>(program.io.size());
  view.dtype = dtype;
  view.rank = static_cast<uint8_t>(dims.size());
  std::vector<size_t> order(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    order[d] = d;
    view.dims[d] = dims[d];
  }
  if (below(3) == 0) {
    std::shuffle(order.begin(), order.end(), random_);
  }
  int64_t stride = below(4) == 0 ? 2 : 1;
  int64_t first = 0;
  for (size_t i = dims.size(); i-- > 0;) {
    const size_t d = order[i];
    const bool repeat = usage == ncx::SlotUsage::kInput && below(5) == 0;
    const bool reverse = !repeat && below(8) == 0;
    view.strides[d] = repeat ? 0 : (reverse ? -stride : stride);
    first += reverse ? stride * std::max<int64_t>(0, dims[d] - 1) : 0;
    stride *= repeat ? 1 : std::max<int64_t>(1, dims[d]) + (below(6) == 0 ? 1 : 0);
  }
  view.offset = static_cast<uint64_t>(first) * dtype_bytes(dtype);
  ncx::IoSlot slot;
  slot.dtype = dtype;
  slot.dims = {std::max<int64_t>(stride, 1) * 2};
  slot.bytes = static_cast<uint64_t>(slot.dims[0]) * dtype_bytes(dtype);
  slot.usage = usage;
  program.io.push_back(slot);
  return view;
}

bool ProgramBuilder::add_op(ncx::MicroProgram& program, std::vector<Dtype>& types, int rank) {
  const auto op = static_cast<ScalarOp>(below(ncx::kScalarOps));
  const auto& info = ncx::scalar_op_info(op);
  MicroOp micro;
  micro.op = op;
  std::vector<Dtype> operands;
  for (int k = 0; k < info.arity; ++k) {
    micro.operands[static_cast<size_t>(k)] =
        static_cast<uint16_t>(below(static_cast<uint32_t>(types.size())));
    operands.push_back(types[micro.operands[static_cast<size_t>(k)]]);
  }
  micro.type = info.result == ncx::ResultRule::kPred ? Dtype::kPred
               : info.result == ncx::ResultRule::kSame || info.result == ncx::ResultRule::kSelect
                   ? operands.back()
                   : any_type();
  if (op == ScalarOp::kIota) {
    if (rank == 0) {
      return false;
    }
    micro.immediate = below(static_cast<uint32_t>(rank));
  } else if (op == ScalarOp::kConstant) {
    micro.immediate = (static_cast<uint64_t>(random_()) << 32) | random_();
  } else if (op == ScalarOp::kReducePrecision) {
    micro.immediate = 1 + below(8) + (below(24) << 8);
  }
  if (!ncx::scalar_op_typed(op, operands, micro.type)) {
    return false;
  }
  program.ops.push_back(micro);
  types.push_back(micro.type);
  return true;
}

std::string compare_with_oracle(const ncx::Program& program, std::mt19937& random) {
  Memory start = make_memory(program);
  for (size_t i = 0; i < program.io.size(); ++i) {
    randomise(start.io[i], program.io[i].dtype, random);
  }
  randomise(start.constants, Dtype::kF32, random);
  return compare_with_oracle(program, start);
}

std::string compare_with_oracle(const ncx::Program& program, const Memory& start) {
  Memory want = start;
  run_oracle(program, want);
  static ThreadPool two(2);
  static ThreadPool four(4);
  for (ThreadPool* pool : {static_cast<ThreadPool*>(nullptr), &two, &four}) {
    for (const SimdLevel level : compiled_simd_levels()) {
      // Pools with the best level only: the levels were compared without.
      if (!simd_level_runs_here(level) || (pool != nullptr && level != detect_simd_level())) {
        continue;
      }
      Memory got = start;
      const Status status = run_engine(program, got, {pool, level});
      std::string text =
          status.ok() ? difference(program, got, want) : std::string(status.message());
      if (!text.empty()) {
        return format("{} (level {}, {} threads)\n{}", text, simd_level_name(level),
                      pool == nullptr ? 1 : pool->threads(), ncx::disassemble(program));
      }
    }
  }
  return "";
}

}  // namespace onrt::testing
