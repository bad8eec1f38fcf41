// SPDX-License-Identifier: Apache-2.0
// Windows by hand, and against the oracle's plain loops over places.
#include <gtest/gtest.h>

#include <cstring>

#include "emulator/exec/testing/oracle.h"
#include "emulator/exec/testing/random_program.h"
#include "emulator/exec/window_map.h"
#include "emulator/isa/window_order.h"

namespace onrt {
namespace {

using ncx::Program;
using ncx::ScalarOp;
using ncx::WindowDimension;
using testing::Memory;
using testing::ProgramBuilder;

std::vector<float> run_1d(const std::vector<float>& x, const WindowDimension& window,
                          int64_t windows, float init = 0) {
  const int64_t in[] = {static_cast<int64_t>(x.size())};
  const int64_t out[] = {windows};
  Program program;
  program.io = {
      {Dtype::kF32, {in[0]}, x.size() * 4, ncx::SlotUsage::kInput},
      {Dtype::kF32, {}, 4, ncx::SlotUsage::kInput},
      {Dtype::kF32, {windows}, static_cast<uint64_t>(windows) * 4, ncx::SlotUsage::kOutput}};
  ncx::ReduceWindow op;
  op.inputs = {testing::dense(ncx::Space::kIo, 0, Dtype::kF32, in)};
  op.window = {window};
  op.accumulators = {
      {Dtype::kF32, ScalarOp::kAdd, testing::dense(ncx::Space::kIo, 1, Dtype::kF32, {})}};
  op.outputs = {testing::dense(ncx::Space::kIo, 2, Dtype::kF32, out)};
  program.blocks.emplace_back().instructions.push_back({op});
  Memory memory = testing::make_memory(program);
  std::memcpy(memory.io[0].data(), x.data(), x.size() * 4);
  std::memcpy(memory.io[1].data(), &init, 4);
  const Status status = testing::run_engine(program, memory, {});
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<float> made(static_cast<size_t>(windows));
  std::memcpy(made.data(), memory.io[2].data(), made.size() * 4);
  return made;
}

// All by hand.
TEST(ReduceWindow, StridesPaddingAndDilations) {
  const std::vector<float> x = {1, 2, 3, 4, 5};
  EXPECT_EQ(run_1d(x, {2, 2, 0, 1, 1}, 2), (std::vector<float>{3, 7}));
  EXPECT_EQ(run_1d(x, {3, 1, 1, 1, 1}, 5), (std::vector<float>{3, 6, 9, 12, 9}));
  EXPECT_EQ(run_1d(x, {3, 2, 2, 1, 1}, 4, 10), (std::vector<float>{11, 16, 22, 15}));
  EXPECT_EQ(run_1d(x, {2, 1, -1, 2, 1}, 2), (std::vector<float>{6, 8}));
  // Places: 1 . 2 . 3 . 4 . 5
  EXPECT_EQ(run_1d(x, {2, 1, 0, 1, 2}, 8), (std::vector<float>{1, 2, 2, 3, 3, 4, 4, 5}));
  EXPECT_EQ(run_1d(x, {3, 2, 0, 3, 2}, 2), (std::vector<float>{5, 7}));
}

TEST(ReduceWindow, RunningSumsFromBothEnds) {
  const std::vector<float> x = {1, 2, 3, 4};
  EXPECT_EQ(run_1d(x, {4, 1, 3, 1, 1}, 4), (std::vector<float>{1, 3, 6, 10}));
  EXPECT_EQ(run_1d(x, {4, 1, 0, 1, 1}, 4), (std::vector<float>{10, 9, 7, 4}));
  EXPECT_EQ(run_1d(x, {4, 1, 5, 1, 1}, 6, 1), (std::vector<float>{1, 1, 2, 4, 7, 11}));
  EXPECT_EQ(run_1d(x, {9, 1, 3, 1, 1}, 3), (std::vector<float>{10, 10, 10}));
  EXPECT_EQ(run_1d(x, {9, 1, 0, 1, 1}, 6, 1), (std::vector<float>{11, 10, 8, 5, 1, 1}));
}

// 3000 elements are three chunks: each total must be that of the chunks, not one long chain.
TEST(ReduceWindow, LongRunningSumsAreCutIntoChunks) {
  std::vector<float> x(3000);
  std::mt19937 random(1);
  for (float& value : x) {
    value = std::normal_distribution<float>(0, 100)(random);
  }
  const std::vector<float> made = run_1d(x, {3000, 1, 2999, 1, 1}, 3000);
  float done = 0;
  float chunk = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    chunk = i % 1024 == 0 ? x[i] : chunk + x[i];
    const float total = i < 1024 ? chunk : done + chunk;
    ASSERT_EQ(made[i], 0.0f + total) << i;
    if (i % 1024 == 1023) {
      done = total;
    }
  }
}

TEST(WindowAxis, FindsElementsBetweenDilatedOnes) {
  // Elements at 0, 6, 12; places of window o at o - 1, o + 3, o + 7, o + 11.
  const WindowAxis axis({4, 1, 1, 4, 6}, 3, 3);
  EXPECT_EQ(axis.run(0).count, 0);     // -1, 3, 7, 11
  const ElementRun one = axis.run(1);  // 0, 4, 8, 12
  EXPECT_EQ(one.first, 0);
  EXPECT_EQ(one.step, 2);
  EXPECT_EQ(one.count, 2);
  EXPECT_EQ(axis.run(2).count, 0);  // 1, 5, 9, 13
}

WindowDimension random_dimension(ProgramBuilder& builder, int64_t size, int64_t* windows) {
  const auto draw = [&](uint32_t n) { return static_cast<int64_t>(builder.below(n)); };
  WindowDimension w;
  if (builder.below(3) == 0) {
    *windows = size;
    return w;
  }
  w.size = 1 + draw(4);
  w.stride = 1 + draw(3);
  w.padding_low = draw(5) - 2;
  w.window_dilation = 1 + (builder.below(3) == 0 ? draw(3) : 0);
  w.base_dilation = 1 + (builder.below(4) == 0 ? draw(3) : 0);
  *windows = 1 + draw(static_cast<uint32_t>(size) + 2);
  return w;
}

// A running fold, or nearly one.
WindowDimension running_dimension(ProgramBuilder& builder, int64_t size, int64_t* windows) {
  const auto draw = [&](uint32_t n) { return static_cast<int64_t>(builder.below(n)); };
  WindowDimension w;
  *windows = std::max<int64_t>(1, size + draw(5) - 2);
  w.size = size + draw(4);
  w.padding_low = builder.below(2) == 0 ? size - 1 + draw(4) - 1 : draw(3) - 1;
  return w;
}

TEST(ReduceWindow, RandomWindowsEqualTheOracle) {
  std::mt19937 random(21);
  constexpr ScalarOp kCombiners[] = {ScalarOp::kAdd,     ScalarOp::kMultiply, ScalarOp::kMinimum,
                                     ScalarOp::kMaximum, ScalarOp::kAnd,      ScalarOp::kXor};
  for (int round = 0; round < 200; ++round) {
    ProgramBuilder builder(random);
    Program program;
    const uint32_t rank = builder.below(5);
    const bool running = rank > 0 && builder.below(3) == 0;
    const uint32_t along = running ? builder.below(rank) : 0;
    std::vector<int64_t> dims;
    std::vector<int64_t> windows;
    ncx::ReduceWindow op;
    for (uint32_t d = 0; d < rank; ++d) {
      const uint32_t most = running && d == along ? 20 : rank == 1 ? 200 : rank == 2 ? 24 : 7;
      dims.push_back(1 + builder.below(most));
      int64_t count = dims[d];
      op.window.push_back(!running     ? random_dimension(builder, dims[d], &count)
                          : d == along ? running_dimension(builder, dims[d], &count)
                                       : WindowDimension{});
      windows.push_back(count);
    }
    const uint32_t arrays = 1 + (builder.below(4) == 0 ? 1 : 0);
    std::vector<Dtype> types;
    for (uint32_t i = 0; i < arrays; ++i) {
      const Dtype type = builder.any_type();
      ScalarOp combiner = kCombiners[builder.below(6)];
      while (!ncx::is_combiner(combiner, type)) {
        combiner = kCombiners[builder.below(6)];
      }
      types.push_back(type);
      op.inputs.push_back(builder.view(program, type, dims, ncx::SlotUsage::kInput));
      op.accumulators.push_back(
          {type, combiner, builder.view(program, type, {}, ncx::SlotUsage::kInput)});
      op.outputs.push_back(builder.view(program, type, windows, ncx::SlotUsage::kOutput));
    }
    if (builder.below(3) == 0) {
      std::vector<Dtype> registers = types;
      registers.insert(registers.end(), types.begin(), types.end());
      builder.add_ops(op.general, registers, 0, 6);
      for (uint32_t i = 0; i < arrays; ++i) {  // the last register of the type
        uint16_t at = static_cast<uint16_t>(registers.size() - 1);
        while (registers[at] != types[i]) {
          --at;
        }
        op.general.results.push_back(at);
      }
    }
    program.blocks.emplace_back().instructions.push_back({op});
    ASSERT_EQ(testing::compare_with_oracle(program, random), "") << "round " << round;
  }
}

// More than one chunk: one line by chunks, or two lines side by side by a general combiner.
TEST(ReduceWindow, LongRunningFoldsEqualTheOracle) {
  std::mt19937 random(22);
  for (const bool backward : {false, true}) {
    for (const bool general : {false, true}) {
      ProgramBuilder builder(random);
      Program program;
      const std::vector<int64_t> dims = {1100, general ? 2 : 1};
      ncx::ReduceWindow op;
      op.window = {{1100, 1, backward ? 0 : 1099, 1, 1}, {}};
      const Dtype type = backward ? Dtype::kBF16 : Dtype::kF32;
      op.inputs = {builder.view(program, type, dims, ncx::SlotUsage::kInput)};
      op.accumulators = {
          {type, ScalarOp::kAdd, builder.view(program, type, {}, ncx::SlotUsage::kInput)}};
      op.outputs = {builder.view(program, type, dims, ncx::SlotUsage::kOutput)};
      if (general) {  // 2a + b: the sides matter
        op.general.ops = {{ScalarOp::kAdd, type, {0, 0, 0}, 0},
                          {ScalarOp::kAdd, type, {2, 1, 0}, 0}};
        op.general.results = {3};
      }
      program.blocks.emplace_back().instructions.push_back({op});
      ASSERT_EQ(testing::compare_with_oracle(program, random), "") << backward << general;
    }
  }
}

TEST(SelectScatter, RandomWindowsEqualTheOracle) {
  std::mt19937 random(23);
  constexpr ScalarOp kSelect[] = {ScalarOp::kCompareGe, ScalarOp::kCompareGt, ScalarOp::kCompareLe,
                                  ScalarOp::kCompareNe};
  for (int round = 0; round < 150; ++round) {
    ProgramBuilder builder(random);
    Program program;
    const uint32_t rank = builder.below(5);
    const Dtype type = builder.any_type();
    std::vector<int64_t> dims;
    std::vector<int64_t> windows;
    ncx::SelectScatter op;
    for (uint32_t d = 0; d < rank; ++d) {
      dims.push_back(1 + builder.below(rank == 1 ? 100 : 8));
      int64_t count = 0;
      op.window.push_back(random_dimension(builder, dims[d], &count));
      windows.push_back(count);
    }
    op.operand = builder.view(program, type, dims, ncx::SlotUsage::kInput);
    op.source = builder.view(program, type, windows, ncx::SlotUsage::kInput);
    op.init = builder.view(program, type, {}, ncx::SlotUsage::kInput);
    op.output = builder.view(program, type, dims, ncx::SlotUsage::kOutput);
    op.select = {{{kSelect[builder.below(4)], Dtype::kPred, {0, 1, 0}, 0}}, {2}};
    std::vector<Dtype> registers = {type, type};
    builder.add_ops(op.scatter, registers, 0, builder.below(2) == 0 ? 4 : 0);
    if (op.scatter.ops.empty()) {
      op.scatter.ops = {{ScalarOp::kMaximum, type, {0, 1, 0}, 0}};
      registers.push_back(type);
    }
    uint16_t at = static_cast<uint16_t>(registers.size() - 1);
    while (registers[at] != type) {
      --at;
    }
    op.scatter.results = {at};
    program.blocks.emplace_back().instructions.push_back({op, ncx::Engine::kPool});
    ASSERT_EQ(testing::compare_with_oracle(program, random), "") << "round " << round;
  }
}

// By hand: chunks of one, sides exchanged when backward.
TEST(WindowOrder, FoldsFromEitherEnd) {
  const std::string x[] = {"a", "b", "c"};
  const auto join = [](const std::string& a, const std::string& b) { return "(" + a + b + ")"; };
  EXPECT_EQ(ncx::fold_window(x, 3, false, join), "((ab)c)");
  EXPECT_EQ(ncx::fold_window(x, 3, true, join), "(a(bc))");
}

}  // namespace
}  // namespace onrt
