// SPDX-License-Identifier: Apache-2.0
// Schedules over real numbers against the reference (testing/reference.cc: plain loops).
#include "collectives/plan/interpret.h"

#include <gtest/gtest.h>

#include "collectives/plan/algorithm.h"
#include "collectives/plan/testing/reference.h"
#include "collectives/plan/testing/specs.h"

namespace onrt::cc {
namespace {

TEST(Interpret, EveryAlgorithmGivesTheReferenceWhateverTheInterleaving) {
  for (const Algorithm& algorithm : algorithms()) {
    for (int op = 0; op < kOps; ++op) {
      for (const int ranks : {1, 2, 3, 4, 7, 8}) {
        const auto specs = ranks <= 4 ? testing::specs_of(static_cast<Op>(op), ranks)
                                      : testing::few_specs_of(static_cast<Op>(op), ranks);
        for (size_t i = 0; i < specs.size(); ++i) {
          const auto schedule = build_schedule(algorithm, specs[i]);
          for (uint64_t seed = i; schedule.ok() && seed < i + 2; ++seed) {
            ASSERT_EQ(testing::run_and_compare(*schedule, seed, seed % 3 * 5), "")
                << algorithm.name << " " << testing::spec_text(specs[i]) << " seed " << seed;
          }
        }
      }
    }
  }
}

// f32: ((x0 + x1) + x2) + ..., by hand; the values do not associate.
TEST(Interpret, DeterministicReductionsAddInTheOrderOfRanks) {
  const std::vector<float> values = {1.0f, 1e8f, -1e8f, 1.0f, 3e-8f};
  float expected = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    expected += values[i];
  }
  const ReduceFunction add = [](std::span<const ReduceOperand> inputs, std::byte* result, bool,
                                uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      float sum = reinterpret_cast<const float*>(inputs[0].data)[i];
      for (size_t k = 1; k < inputs.size(); ++k) {
        sum += reinterpret_cast<const float*>(inputs[k].data)[i];
      }
      reinterpret_cast<float*>(result)[i] = sum;
    }
  };
  int ran = 0;
  for (const Algorithm& algorithm : algorithms()) {
    Spec spec;
    spec.ranks = 5;
    spec.count = 100;
    spec.deterministic = true;
    const auto schedule = build_schedule(algorithm, spec);
    if (!schedule.ok()) {
      continue;
    }
    ++ran;
    auto memory = make_memory(*schedule, std::byte{0});
    for (size_t rank = 0; rank < 5; ++rank) {
      std::fill_n(reinterpret_cast<float*>(memory[rank].in.data()), 100, values[rank]);
    }
    ASSERT_TRUE(interpret(*schedule, memory, add, 3).ok());
    for (const RankMemory& rank : memory) {
      for (size_t i = 0; i < 100; ++i) {
        EXPECT_EQ(reinterpret_cast<const float*>(rank.out.data())[i], expected) << algorithm.name;
      }
    }
  }
  EXPECT_EQ(ran, 3);  // direct, mesh, single-step-mesh
}

TEST(Interpret, NamesWhoWaitsWhenNothingCanGoOn) {
  Schedule schedule;
  schedule.spec.op = Op::kBarrier;
  schedule.spec.ranks = 2;
  schedule.programs.resize(2);
  Step wait;
  wait.kind = StepKind::kWait;
  wait.amount = 1;
  wait.peer = 0;
  schedule.programs[1].channels = {{wait}};
  auto memory = make_memory(schedule, std::byte{0});
  const Status status = interpret(schedule, memory, {}, 1);
  EXPECT_EQ(status.code(), NRT_FAILURE);
  EXPECT_EQ(status.message(), "nothing can go on: rank 1, channel 0, step 0: waits for rank 0");
}

}  // namespace
}  // namespace onrt::cc
