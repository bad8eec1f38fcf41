// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/plan/algorithm.h"
#include "collectives/plan/testing/reference.h"
#include "collectives/plan/testing/specs.h"
#include "collectives/plan/verify.h"

namespace onrt::cc {
namespace {

using ::testing::HasSubstr;

TEST(Schedule, PartsCoverAMessageInOrderWithoutGaps) {
  for (const uint64_t count : {0u, 1u, 5u, 16u, 17u, 1000u}) {
    for (const uint64_t parts : {1u, 2u, 3u, 7u, 64u}) {
      for (const uint64_t granule : {1u, 16u}) {
        uint64_t end = 0;
        uint64_t before = count;
        for (uint64_t i = 0; i < parts; ++i) {
          const auto [first, size] = part_of(count, parts, i, granule);
          EXPECT_EQ(first, end);
          EXPECT_TRUE(first % granule == 0 || first == count);
          EXPECT_LE(size, before) << "parts get no larger";
          end = first + size;
          before = size;
        }
        EXPECT_EQ(end, count);
      }
    }
  }
}

TEST(Schedule, PartsOfTheLargestCountDoNotOverflow) {
  const uint64_t most = 1ULL << 56;
  EXPECT_EQ(part_of(most, 3, 2, 1).first, most / 3 * 2 + 1);
  const auto [first, count] = part_of(most - 1, 64, 63, 16);
  EXPECT_EQ(first + count, most - 1);
}

// Counted by hand: 4 ranks, 1024 f32; a ring sends 3 blocks of 1 KiB a phase to the next rank.
TEST(Schedule, TrafficOfARingGoesToTheNextRankOnly) {
  Spec spec;
  spec.ranks = 4;
  spec.count = 1024;
  const auto schedule = build_schedule(*find_algorithm("ring"), spec);
  ASSERT_TRUE(schedule.ok());
  const auto bytes = traffic(*schedule);
  for (size_t from = 0; from < 4; ++from) {
    for (size_t to = 0; to < 4; ++to) {
      EXPECT_EQ(bytes[from * 4 + to], to == (from + 1) % 4 ? 6144u : 0u) << from << " " << to;
    }
  }
}

TEST(Schedule, AProgramIsTheSameBuiltAlone) {
  Spec spec;
  spec.ranks = 6;
  spec.count = 100;
  for (const Algorithm& algorithm : algorithms()) {
    const auto schedule = build_schedule(algorithm, spec);
    for (int rank = 0; schedule.ok() && rank < 6; ++rank) {
      EXPECT_EQ(*build_program(algorithm, spec, rank),
                schedule->programs[static_cast<size_t>(rank)]);
    }
  }
}

TEST(Schedule, NumberOfStepsDoesNotDependOnTheCount) {
  Spec spec;
  spec.ranks = 64;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.ops.has(Op::kAllReduce)) {
      continue;
    }
    spec.count = 1 << 16;
    const auto small = build_program(algorithm, spec, 5);
    spec.count = 1ULL << 40;
    const auto large = build_program(algorithm, spec, 5);
    EXPECT_EQ(small->channels[0].size(), large->channels[0].size()) << algorithm.name;
  }
}

// Windows of equal length have one schedule; the shifts are the executor's.
TEST(Schedule, WindowsCoverAnOperationOnBlocksWithTheirDistance) {
  Spec spec;
  spec.op = Op::kAllGather;
  spec.ranks = 3;
  spec.count = 10;
  const Spec first = window_of(spec, 0, 4);
  EXPECT_EQ(first, window_of(spec, 4, 4));
  EXPECT_EQ(first.stride, 10u);
  EXPECT_EQ(out_elements(first, 0), 24u);
  for (const Algorithm& algorithm : algorithms()) {
    const auto schedule = build_schedule(algorithm, first);
    if (schedule.ok()) {
      EXPECT_TRUE(check_schedule(*schedule).ok()) << algorithm.name;
    }
  }
}

TEST(Schedule, WindowsOfBlocksOfAnySizeEndWithTheBlocks) {
  Spec spec;
  spec.op = Op::kAllGatherV;
  spec.ranks = 3;
  spec.counts = {5, 0, 9};
  const Spec last = window_of(spec, 4, 4);
  EXPECT_THAT(last.counts, ::testing::ElementsAre(1, 0, 4));
  EXPECT_THAT(last.out_offsets, ::testing::ElementsAre(4, 9, 9));
  EXPECT_THAT(last.in_offsets, ::testing::ElementsAre(4, 4, 4));
  EXPECT_EQ(testing::run_and_compare(*build_schedule(*find_algorithm("ring"), last), 1, 0), "");
}

struct BadSpec {
  std::string name;
  void (*change)(Spec& spec);
  std::string message;
};

class BadSpecs : public ::testing::TestWithParam<BadSpec> {};

TEST_P(BadSpecs, AreRefusedWithWhatWasExpected) {
  Spec spec;
  spec.ranks = 4;
  spec.count = 8;
  GetParam().change(spec);
  const Status status = check_spec(spec);
  EXPECT_EQ(status.code(), NRT_INVALID);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadSpecs,
    ::testing::Values(
        BadSpec{"Ranks", [](Spec& s) { s.ranks = 0; }, "ranks: expected 1 to 4096, found 0"},
        BadSpec{"Root", [](Spec& s) { s.op = Op::kReduce, s.root = 4; },
                "root of reduce: expected 0 to 3, found 4"},
        BadSpec{"RootOfNone", [](Spec& s) { s.root = 1; }, "root of all_reduce: expected 0"},
        BadSpec{"Channels", [](Spec& s) { s.channels = 33; }, "channels: expected 1 to 32"},
        BadSpec{"Slices", [](Spec& s) { s.slices = 0; }, "slices: expected 1 to 32, found 0"},
        BadSpec{"Count", [](Spec& s) { s.count = ~0ULL; }, "count: expected 0 to"},
        BadSpec{"Stride", [](Spec& s) { s.stride = 7; }, "stride: expected 8 to"},
        BadSpec{"Bytes", [](Spec& s) { s.element_bytes = 0; }, "element_bytes: expected 1 to 16"},
        BadSpec{"Counts", [](Spec& s) { s.counts = {1}; }, "all_reduce takes no counts"},
        BadSpec{"ShortCounts", [](Spec& s) { s.op = Op::kAllGatherV, s.counts = {1}; },
                "counts: expected 4 numbers, found 1"},
        BadSpec{"Overlap",
                [](Spec& s) {
                  s.op = Op::kAllGatherV, s.counts = {4, 4, 4, 4}, s.out_offsets = {0, 3, 8, 12};
                },
                "a block at 0 of 4 elements overlaps that at 3"},
        BadSpec{"Pairs", [](Spec& s) { s.pairs = {{0, 1}}; }, "all_reduce takes no pairs"},
        BadSpec{"PairTwice", [](Spec& s) { s.op = Op::kPermute, s.pairs = {{0, 1}, {2, 1}}; },
                "pair (2, 1): expected each rank at most once"},
        BadSpec{"PairRange", [](Spec& s) { s.op = Op::kPermute, s.pairs = {{0, 4}}; },
                "pair (0, 4): expected ranks 0 to 3"},
        BadSpec{"Exchange",
                [](Spec& s) {
                  s.op = Op::kAllToAllV, s.in_place = true, s.counts.assign(16, 1), s.counts[1] = 2;
                },
                "expected ranks 0 and 1 to exchange blocks of one size"}),
    [](const ::testing::TestParamInfo<BadSpec>& tested) { return tested.param.name; });

TEST(Schedule, NamesReadBack) {
  for (int op = 0; op < kOps; ++op) {
    EXPECT_EQ(*parse_op(op_name(static_cast<Op>(op))), static_cast<Op>(op));
  }
  EXPECT_THAT(std::string(parse_op("allreduce").status().message()),
              HasSubstr("operation 'allreduce': expected one of all_reduce, all_gather"));
}

}  // namespace
}  // namespace onrt::cc
