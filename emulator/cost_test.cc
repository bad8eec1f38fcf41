// SPDX-License-Identifier: Apache-2.0
#include "emulator/cost.h"

#include <gtest/gtest.h>

#include "emulator/timing.h"

namespace onrt {
namespace {

using ncx::Instruction;
using ncx::Space;
using ncx::View;

View matrix(uint64_t offset, int64_t rows, int64_t columns) {
  View view;
  view.space = Space::kScratch;
  view.rank = 2;
  view.offset = offset;
  view.dims = {rows, columns};
  view.strides = {columns, 1};
  return view;
}

Instruction product(int64_t m, int64_t k, int64_t n) {
  ncx::Gemm gemm;
  gemm.lhs = matrix(0, m, k);
  gemm.rhs = matrix(0, k, n);
  gemm.outputs = {matrix(0, m, n)};
  gemm.epilogue.results = {0};
  Instruction made;
  made.payload = gemm;
  made.engine = ncx::Engine::kPe;
  return made;
}

ProgramCost cost_of_blocks(std::vector<ncx::Block> blocks) {
  ncx::Program program;
  program.names = {"x"};
  program.scratch_bytes = 1000;
  program.constants_bytes = 24;
  program.blocks = std::move(blocks);
  const auto timeline = schedule(program);
  EXPECT_TRUE(timeline.ok()) << timeline.status().message();
  return cost_of(program, *timeline);
}

TEST(Cost, OfAMatrixProductIsTheHandCalculation) {
  const ProgramCost cost = cost_of_blocks({{{product(128, 256, 512)}}});
  EXPECT_EQ(cost.flops, 2.0 * 128 * 256 * 512);
  EXPECT_EQ(cost.hbm_bytes, 4U * (128 * 256 + 256 * 512 + 128 * 512));
  // 1 x 2 tiles of 128 x 128 stationary, 512 columns each, four passes for f32, and the issue; at
  // 2.4 GHz (core version 3): the constants and sources of timing.cc.
  EXPECT_EQ(cost.busy_ns[0], static_cast<uint64_t>((2 * 512 * 4 + 100) / 2.4));
  EXPECT_EQ(cost.peak_bytes(), 1024U);
  EXPECT_GE(cost.device_ns, cost.busy_ns[0]);
  EXPECT_FALSE(cost.has_loops);
}

TEST(Cost, OfControlFlowIsOneTurnAndTheCostliestBranch) {
  Instruction loop;
  loop.payload = ncx::Loop{1, 2, {}};
  Instruction branch;
  branch.payload = ncx::If{{}, {3, 4}};
  const ProgramCost cost = cost_of_blocks({{{loop, branch}},
                                           {{product(1, 1, 1)}},
                                           {{product(2, 2, 2)}},
                                           {{product(4, 4, 4)}},
                                           {{product(512, 512, 512)}}});
  EXPECT_EQ(cost.flops, 2.0 * (1 + 8 + 512.0 * 512 * 512));
  EXPECT_TRUE(cost.has_loops);
}

}  // namespace
}  // namespace onrt
