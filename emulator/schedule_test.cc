// SPDX-License-Identifier: Apache-2.0
#include "emulator/schedule.h"

#include <gtest/gtest.h>

#include "emulator/exec/testing/oracle.h"
#include "emulator/timing.h"

namespace onrt {
namespace {

using ncx::Engine;
using ncx::Program;

// Copies between parts of scratch: what they do doesn't matter here, only engine and semaphores.
ncx::Instruction step(Engine engine, std::vector<ncx::SemaphoreWait> waits,
                      std::vector<ncx::SemaphoreIncrement> increments) {
  ncx::Instruction instruction;
  instruction.payload = ncx::Copy{};
  instruction.engine = engine;
  instruction.waits = std::move(waits);
  instruction.increments = std::move(increments);
  return instruction;
}

Program program_of(std::vector<ncx::Instruction> instructions) {
  Program program;
  program.semaphores = 4;
  program.names = {"copy.7"};
  program.blocks.push_back({std::move(instructions)});
  return program;
}

TEST(Schedule, SemaphoresOrderEnginesWhateverTheTextOrder) {
  // The consumer comes first in the text.
  const auto timeline = schedule(
      program_of({step(Engine::kAct, {{0, 2}}, {}), step(Engine::kDve, {}, {{0, 1}}),
                  step(Engine::kPe, {{1, 1}}, {{0, 1}}), step(Engine::kPool, {}, {{1, 1}})}));
  ASSERT_TRUE(timeline.ok()) << timeline.status().message();
  const auto& entries = timeline->blocks[0].entries;
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries.back().instruction, 0u);
  for (const TimelineEntry& entry : entries) {
    EXPECT_LT(entry.start_ns, entry.end_ns);
  }
  EXPECT_GE(entries.back().start_ns, entries[2].end_ns);
  EXPECT_EQ(timeline->device_ns, entries.back().end_ns);
}

TEST(Schedule, OneEngineRunsInOrderAndTwoOverlap) {
  const auto one = schedule(program_of({step(Engine::kDve, {}, {}), step(Engine::kDve, {}, {})}));
  const auto two = schedule(program_of({step(Engine::kDve, {}, {}), step(Engine::kPool, {}, {})}));
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->blocks[0].entries[1].start_ns, one->blocks[0].entries[0].end_ns);
  EXPECT_EQ(two->blocks[0].entries[1].start_ns, 0u);
  EXPECT_LT(two->device_ns, one->device_ns);
}

TEST(Schedule, DeadlockNamesWhoWaitsForWhat) {
  const auto timeline = schedule(
      program_of({step(Engine::kDve, {{0, 1}}, {{1, 1}}), step(Engine::kPe, {{1, 1}}, {{0, 1}}),
                  step(Engine::kAct, {}, {{2, 1}})}));
  ASSERT_FALSE(timeline.ok());
  EXPECT_EQ(timeline.status().code(), NRT_INVALID);
  EXPECT_EQ(timeline.status().message(),
            "NCX block 0: deadlock: instruction 1 (copy.7) for semaphore 1 >= 1 (reaches 0), "
            "instruction 0 (copy.7) for semaphore 0 >= 1 (reaches 0) would wait forever");
}

// By hand for trn2: 512 x 512 x 512 bf16 = 4 x 4 tiles of 512 moving columns = 8192 cycles and 100
// to issue at 2.4 GHz; three matrices of 512 KiB at 368 B/ns after 1300 ns.
TEST(Timing, MatmulTakesItsTilesOrItsTransfers) {
  ncx::Gemm gemm;
  const int64_t dims[] = {512, 512};
  gemm.lhs = gemm.rhs = testing::dense(ncx::Space::kScratch, 0, Dtype::kBF16, dims);
  gemm.outputs = {gemm.lhs};
  gemm.epilogue.results = {0};
  const InstructionCost cost = cost_of({gemm, Engine::kPe}, TimingModel::of(3));
  EXPECT_NEAR(cost.engine_ns, (16 * 512 + 100) / 2.4, 0.01);
  EXPECT_EQ(cost.dma_bytes, 3u * 512 * 512 * 2);
  EXPECT_NEAR(cost.dma_ns, 1300 + 3.0 * 512 * 512 * 2 / 368, 0.01);
}

TEST(Timing, EveryConstantHasASource) {
  for (const uint32_t version : {2u, 3u, 4u}) {
    for (const TimingConstant& constant : TimingModel::of(version).constants()) {
      EXPECT_GT(constant.value, 0) << constant.name;
      EXPECT_FALSE(constant.source.empty()) << constant.name;
    }
  }
}

}  // namespace
}  // namespace onrt
