// SPDX-License-Identifier: Apache-2.0
// Random elementwise instructions against the scalar reference (emulator/isa/scalar_value.h), which
// scalar_ops_test.cc in turn compares with libm and with tables from JAX.
#include <gtest/gtest.h>

#include "emulator/exec/testing/oracle.h"
#include "emulator/isa/encoding.h"
#include "emulator/isa/scalar_op.h"

namespace onrt {
namespace {

using ncx::Eltwise;
using ncx::MicroOp;
using ncx::Program;
using ncx::ScalarOp;
using testing::Memory;

constexpr Dtype kTypes[] = {
#define ONRT_DTYPE(name, text, bytes, nrt, xla) Dtype::k##name,
#include "runtime/base/dtype.def"
#undef ONRT_DTYPE
};

class Builder {
 public:
  explicit Builder(std::mt19937& random) : random_(random) {}

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  Dtype any_type() { return kTypes[below(std::size(kTypes))]; }

  // A view of `dims` over a new io slot: dense, transposed, sliced, reversed or broadcast.
  ncx::View view(Program& program, Dtype dtype, std::span<const int64_t> dims,
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
      first += reverse ? stride * (dims[d] - 1) : 0;
      stride *= repeat ? 1 : dims[d] + (below(6) == 0 ? 1 : 0);
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

  // One op whose operands are taken from `types` (registers so far); false if none fits.
  bool add_op(ncx::MicroProgram& program, std::vector<Dtype>& types, int rank) {
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

 private:
  std::mt19937& random_;
};

Program random_program(std::mt19937& random) {
  Builder builder(random);
  Program program;
  Eltwise op;
  op.domain.rank = static_cast<uint8_t>(builder.below(5));
  std::vector<int64_t> dims;
  int64_t elements = 1;
  for (int d = 0; d < op.domain.rank; ++d) {
    const int64_t most = elements > 200 ? 3 : (builder.below(8) == 0 ? 1500 : 24);
    dims.push_back(1 + builder.below(static_cast<uint32_t>(most)));
    op.domain.dims[static_cast<size_t>(d)] = dims.back();
    elements *= dims.back();
  }
  std::vector<Dtype> types;
  const Dtype favourite = builder.any_type();
  for (uint32_t i = 0, n = 1 + builder.below(4); i < n; ++i) {
    const Dtype dtype = builder.below(3) == 0 ? builder.any_type() : favourite;
    op.inputs.push_back(builder.view(program, dtype, dims, ncx::SlotUsage::kInput));
    types.push_back(dtype);
  }
  for (uint32_t i = 0, n = builder.below(200); i < n && op.program.ops.size() < 20; ++i) {
    builder.add_op(op.program, types, op.domain.rank);
  }
  for (uint32_t i = 0, n = 1 + builder.below(3); i < n; ++i) {
    const auto last = static_cast<uint32_t>(types.size());
    const uint32_t reg = last - 1 - builder.below(std::min(last, 4u));
    op.program.results.push_back(static_cast<uint16_t>(reg));
    op.outputs.push_back(builder.view(program, types[reg], dims, ncx::SlotUsage::kOutput));
  }
  ncx::Instruction instruction;
  instruction.payload = op;
  program.blocks.emplace_back().instructions.push_back(instruction);
  return program;
}

TEST(Eltwise, RandomProgramsEqualTheScalarReferenceAtEverySimdLevel) {
  const uint32_t seed = 20261130;
  std::mt19937 random(seed);
  for (int round = 0; round < 150; ++round) {
    const Program program = random_program(random);
    Memory start = testing::make_memory(program);
    for (size_t i = 0; i < program.io.size(); ++i) {
      testing::randomise(start.io[i], program.io[i].dtype, random);
    }
    Memory want = start;
    testing::run_oracle(program, want);
    const auto& op = std::get<Eltwise>(program.blocks[0].instructions[0].payload);
    for (const SimdLevel level : compiled_simd_levels()) {
      if (!simd_level_runs_here(level)) {
        continue;
      }
      Memory got = start;
      const Status status = testing::run_engine(program, got, {nullptr, level});
      ASSERT_TRUE(status.ok()) << status.message();
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        ASSERT_EQ(testing::elements(op.outputs[i], got), testing::elements(op.outputs[i], want))
            << "seed " << seed << " round " << round << " output " << i << " level "
            << simd_level_name(level) << "\n"
            << ncx::disassemble(program);
      }
    }
  }
}

}  // namespace
}  // namespace onrt
