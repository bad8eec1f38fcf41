// SPDX-License-Identifier: Apache-2.0
// Gemm instructions (batches, views, epilogues) against the dot products of the oracle, which sum
// in the order of isa/reduce_order.h.
#include <gtest/gtest.h>

#include "emulator/exec/testing/oracle.h"
#include "emulator/exec/testing/random_program.h"

namespace onrt {
namespace {

using ncx::Program;
using testing::ProgramBuilder;

Program random_program(std::mt19937& random) {
  ProgramBuilder builder(random);
  Program program;
  ncx::Gemm op;
  std::vector<int64_t> batch;
  for (uint32_t d = 0, n = builder.below(4); d < n; ++d) {
    batch.push_back(1 + builder.below(3));
  }
  const int64_t m = 1 + builder.below(batch.empty() ? 60 : 12);
  const int64_t n = 1 + builder.below(batch.empty() ? 60 : 12);
  const int64_t k = builder.below(4) == 0 ? 250 + builder.below(300) : builder.below(20);
  const bool floating = builder.below(4) != 0;
  const auto type = [&] { return floating ? builder.any_float() : builder.any_integer(); };
  op.type = type();
  const auto shape = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> dims = batch;
    dims.push_back(rows);
    dims.push_back(columns);
    return dims;
  };
  op.lhs = builder.view(program, type(), shape(m, k), ncx::SlotUsage::kInput);
  op.rhs = builder.view(program, type(), shape(k, n), ncx::SlotUsage::kInput);
  std::vector<Dtype> types = {op.type};
  if (builder.below(2) == 0) {
    for (uint32_t i = 0, count = builder.below(3); i < count; ++i) {
      types.push_back(builder.below(2) == 0 ? op.type : builder.any_type());
      op.epilogue_inputs.push_back(
          builder.view(program, types.back(), shape(m, n), ncx::SlotUsage::kInput));
    }
    builder.add_ops(op.epilogue, types, static_cast<int>(batch.size()) + 2, 5);
  }
  for (uint32_t i = 0, count = 1 + builder.below(2); i < count; ++i) {
    const auto reg = static_cast<uint16_t>(i == 0 ? types.size() - 1 : 0);
    op.epilogue.results.push_back(reg);
    op.outputs.push_back(builder.view(program, types[reg], shape(m, n), ncx::SlotUsage::kOutput));
  }
  program.blocks.emplace_back().instructions.push_back({op});
  return program;
}

TEST(Gemm, RandomProgramsEqualTheOracle) {
  const uint32_t seed = 99;
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    const Program program = random_program(random);
    ASSERT_EQ(testing::compare_with_oracle(program, random), "")
        << "seed " << seed << " round " << round;
  }
}

}  // namespace
}  // namespace onrt
