// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace onrt::cc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Spec all_reduce(int ranks, uint64_t count) {
  Spec spec;
  spec.ranks = ranks;
  spec.count = count;
  return spec;
}

TEST(Choose, TakesTheCheapestAndSaysWhatTheOthersCost) {
  const auto choice = choose(all_reduce(4, 1 << 20), shared_memory_model(1));
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->algorithm->name, "direct");
  EXPECT_THAT(choice->why, AllOf(HasSubstr("direct: "), HasSubstr("us by the model; "),
                                 HasSubstr("ring "), HasSubstr("mesh ")));
}

// Mesh beats single-step mesh once the bytes outweigh a step (reference: AWS documentation).
TEST(Choose, OneStepForSmallMessagesTwoForLargeOnes) {
  const Algorithm& one = *find_algorithm("single-step-mesh");
  const Algorithm& two = *find_algorithm("mesh");
  const LinkModel link = shared_memory_model(1);
  const Spec small = all_reduce(8, 2);
  const Spec large = all_reduce(8, 1 << 22);
  EXPECT_LT(estimate_seconds(one.cost(small), link), estimate_seconds(two.cost(small), link));
  EXPECT_GT(estimate_seconds(one.cost(large), link), estimate_seconds(two.cost(large), link));
}

TEST(Choose, IsAFunctionOfWhatItIsGiven) {
  for (uint64_t count = 1; count < 1ULL << 30; count *= 8) {
    const auto first = choose(all_reduce(16, count), shared_memory_model(8));
    const auto second = choose(all_reduce(16, count), shared_memory_model(8));
    EXPECT_EQ(first->why, second->why);
  }
}

TEST(Choose, EveryOperationHasAnAlgorithmForEveryNumberOfRanks) {
  for (int op = 0; op < kOps; ++op) {
    for (const int ranks : {1, 2, 3, 64, 100}) {
      for (const Access access : {Access::kDirect, Access::kStaged}) {
        Spec spec = all_reduce(ranks, 10);
        spec.op = static_cast<Op>(op);
        spec.access = access;
        spec.deterministic = true;
        const auto n = static_cast<size_t>(ranks);
        spec.counts.assign(spec.op == Op::kAllGatherV  ? n
                           : spec.op == Op::kAllToAllV ? n * n
                                                       : 0,
                           3);
        const auto choice = choose(spec, shared_memory_model(1));
        EXPECT_TRUE(choice.ok()) << choice.status().message();
      }
    }
  }
}

TEST(Choose, ForcedAlgorithmIsTakenAndNamedAsSuch) {
  const auto choice = choose(all_reduce(4, 100), shared_memory_model(1), "rdh");
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->algorithm->name, "rdh");
  EXPECT_EQ(choice->why, "rdh: asked for");
}

TEST(Choose, ForcedAlgorithmThatCannotIsRefusedWithThoseThatCan) {
  Spec spec = all_reduce(6, 100);
  spec.op = Op::kAllGather;
  EXPECT_THAT(std::string(choose(spec, shared_memory_model(1), "rdh").status().message()),
              AllOf(HasSubstr("rdh: all_gather needs a power of two of ranks, found 6; all_gather "
                              "on 6 ranks can be done by: direct, mesh, ring, bruck")));
  EXPECT_THAT(std::string(choose(spec, shared_memory_model(1), "bogus").status().message()),
              HasSubstr("no algorithm is named 'bogus'; all_gather on 6 ranks can be done by"));
  EXPECT_THAT(std::string(choose(spec, shared_memory_model(1), "pairwise").status().message()),
              HasSubstr("algorithm pairwise has no all_gather"));
}

TEST(Choose, DeterministicReductionsLeaveOutWhatAddsInAnotherOrder) {
  Spec spec = all_reduce(8, 1 << 20);
  spec.deterministic = true;
  const auto choice = choose(spec, shared_memory_model(1));
  ASSERT_TRUE(choice.ok());
  EXPECT_THAT(choice->why, Not(HasSubstr("ring")));
  const auto forced = choose(spec, shared_memory_model(1), "ring");
  EXPECT_THAT(std::string(forced.status().message()),
              AllOf(HasSubstr("each block's sum begins at another rank"),
                    HasSubstr("can be done by: direct, single-step-mesh, mesh")));
}

}  // namespace
}  // namespace onrt::cc
