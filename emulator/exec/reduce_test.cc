// SPDX-License-Identifier: Apache-2.0
// Reductions against the scalar reference, which combines in the order of isa/reduce_order.h.
#include <gtest/gtest.h>

#include "emulator/exec/testing/oracle.h"
#include "emulator/exec/testing/random_program.h"
#include "emulator/isa/scalar_value.h"

namespace onrt {
namespace {

using ncx::Program;
using ncx::Reduce;
using ncx::ScalarOp;
using testing::ProgramBuilder;

constexpr ScalarOp kCombiners[] = {ScalarOp::kAdd,     ScalarOp::kMultiply, ScalarOp::kMinimum,
                                   ScalarOp::kMaximum, ScalarOp::kAnd,      ScalarOp::kOr,
                                   ScalarOp::kXor};

void add_accumulator(ProgramBuilder& builder, Program& program, Reduce& op, Dtype type) {
  Reduce::Accumulator accumulator;
  accumulator.type = type;
  do {
    accumulator.combiner = kCombiners[builder.below(std::size(kCombiners))];
  } while (!ncx::is_combiner(accumulator.combiner, type));
  accumulator.init = builder.view(program, type, {}, ncx::SlotUsage::kInput);
  op.accumulators.push_back(accumulator);
}

// (value, index) of the largest value, the first one of equals: the combiner of argmax.
void make_argmax(Reduce& op) {
  const Dtype value = op.accumulators[0].type;
  const Dtype index = op.accumulators[1].type;
  op.general.ops = {{ScalarOp::kCompareGt, Dtype::kPred, {0, 2, 0}, 0},
                    {ScalarOp::kCompareEq, Dtype::kPred, {0, 2, 0}, 0},
                    {ScalarOp::kCompareLt, Dtype::kPred, {1, 3, 0}, 0},
                    {ScalarOp::kAnd, Dtype::kPred, {5, 6, 0}, 0},
                    {ScalarOp::kOr, Dtype::kPred, {4, 7, 0}, 0},
                    {ScalarOp::kSelect, value, {8, 0, 2}, 0},
                    {ScalarOp::kSelect, index, {8, 1, 3}, 0}};
  op.general.results = {9, 10};
}

Program random_program(std::mt19937& random) {
  ProgramBuilder builder(random);
  Program program;
  Reduce op;
  op.domain.rank = static_cast<uint8_t>(builder.below(5));
  op.reduced = static_cast<uint8_t>(builder.below(op.domain.rank + 1u));
  std::vector<int64_t> dims;
  int64_t elements = 1;
  for (int d = 0; d < op.domain.rank; ++d) {
    const bool long_one = builder.below(4) == 0 && elements < 40;
    const int64_t most = elements > 400 ? 3 : (long_one ? 5000 : 20);
    dims.push_back(builder.below(30) == 0 ? 0 : 1 + builder.below(static_cast<uint32_t>(most)));
    op.domain.dims[static_cast<size_t>(d)] = dims.back();
    elements *= dims.back();
  }
  const std::vector<int64_t> kept(dims.begin(), dims.end() - op.reduced);
  const Dtype favourite = builder.below(2) == 0 ? Dtype::kF32 : builder.any_type();
  std::vector<Dtype> types;
  for (uint32_t i = 0, n = 1 + builder.below(3); i < n; ++i) {
    types.push_back(builder.below(4) == 0 ? builder.any_type() : favourite);
    op.inputs.push_back(builder.view(program, types.back(), dims, ncx::SlotUsage::kInput));
  }
  builder.add_ops(op.prologue, types, op.domain.rank, builder.below(3) == 0 ? 6 : 0);
  const uint32_t accumulators = 1 + builder.below(3);
  std::vector<Dtype> totals;
  for (uint32_t i = 0; i < accumulators; ++i) {
    const uint32_t reg = i == 0 ? static_cast<uint32_t>(types.size()) - 1
                                : builder.below(static_cast<uint32_t>(types.size()));
    op.prologue.results.push_back(static_cast<uint16_t>(reg));
    add_accumulator(builder, program, op, types[reg]);
    totals.push_back(types[reg]);
  }
  if (accumulators == 2 && builder.below(2) == 0) {
    make_argmax(op);
  }
  if (builder.below(2) == 0) {
    totals.push_back(builder.any_type());
    op.epilogue_inputs.push_back(
        builder.view(program, totals.back(), kept, ncx::SlotUsage::kInput));
    builder.add_ops(op.epilogue, totals, static_cast<int>(kept.size()), 5);
  }
  for (uint32_t i = 0, n = 1 + builder.below(3); i < n; ++i) {
    const auto reg = static_cast<uint16_t>(builder.below(static_cast<uint32_t>(totals.size())));
    op.epilogue.results.push_back(reg);
    op.outputs.push_back(builder.view(program, totals[reg], kept, ncx::SlotUsage::kOutput));
  }
  program.blocks.emplace_back().instructions.push_back({op});
  return program;
}

TEST(Reduce, RandomProgramsEqualTheScalarReference) {
  const uint32_t seed = 4711;
  std::mt19937 random(seed);
  for (int round = 0; round < 80; ++round) {
    const Program program = random_program(random);
    ASSERT_EQ(testing::compare_with_oracle(program, random), "")
        << "seed " << seed << " round " << round;
  }
}

// Dense [rows, columns] summed over one of the two, the shapes of softmax, norms and bias
// gradients.
Program sum_program(int64_t kept, int64_t reduced, bool by_rows) {
  Program program;
  Reduce op;
  const int64_t dims[] = {kept, reduced};
  const int64_t memory[] = {by_rows ? kept : reduced, by_rows ? reduced : kept};
  op.domain = {2, {kept, reduced}};
  op.reduced = 1;
  program.io = {{Dtype::kF32, {memory[0], memory[1]}, static_cast<uint64_t>(kept * reduced * 4)},
                {Dtype::kF32, {}, 4},
                {Dtype::kF32, {kept}, static_cast<uint64_t>(kept * 4), ncx::SlotUsage::kOutput}};
  ncx::View input = testing::dense(ncx::Space::kIo, 0, Dtype::kF32, dims);
  if (!by_rows) {
    input.strides = {1, kept};
  }
  op.inputs = {input};
  op.prologue.results = {0};
  op.accumulators = {
      {Dtype::kF32, ScalarOp::kAdd, testing::dense(ncx::Space::kIo, 1, Dtype::kF32, {})}};
  op.epilogue.results = {0};
  op.outputs = {testing::dense(ncx::Space::kIo, 2, Dtype::kF32, {dims, 1})};
  program.blocks.emplace_back().instructions.push_back({op});
  return program;
}

TEST(Reduce, SumsOfManyShapesFollowTheCanonicalOrder) {
  std::mt19937 random(7);
  for (const bool by_rows : {true, false}) {
    for (const auto& [kept, reduced] : {std::pair<int64_t, int64_t>{1, 1},
                                        {1, 7},
                                        {1, 8},
                                        {1, 9},
                                        {1, 1023},
                                        {1, 1024},
                                        {1, 1025},
                                        {1, 70000},
                                        {3, 5000},
                                        {130, 17},
                                        {128, 1024},
                                        {129, 1025},
                                        {500, 64},
                                        {64, 8},
                                        {1000, 3},
                                        {2, 1 << 15}}) {
      ASSERT_EQ(testing::compare_with_oracle(sum_program(kept, reduced, by_rows), random), "")
          << kept << " x " << reduced << (by_rows ? " rows" : " columns");
    }
  }
}

// The total of 2^24 + 8 ones would stop at 2^24 in a plain f32 loop.
TEST(Reduce, LongSumsOfOnesAreExact) {
  const int64_t n = (1 << 24) + 8;
  const Program program = sum_program(1, n, true);
  testing::Memory memory = testing::make_memory(program);
  auto* values = reinterpret_cast<float*>(memory.io[0].data());
  std::fill_n(values, n, 1.0f);
  ASSERT_TRUE(testing::run_engine(program, memory, {}).ok());
  EXPECT_EQ(*reinterpret_cast<float*>(memory.io[2].data()), static_cast<float>(n));
}

}  // namespace
}  // namespace onrt
