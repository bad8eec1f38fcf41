// SPDX-License-Identifier: Apache-2.0
// One hand-made schedule a mistake: the finding says where, what was expected and found.
#include "collectives/plan/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "collectives/plan/algorithm.h"

namespace onrt::cc {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::string name;
  std::string algorithm;
  Op op;
  void (*change)(Schedule& schedule);
  Mistake mistake;
  std::string text;
};

Step& step(Schedule& schedule, size_t rank, size_t index) {
  return schedule.programs[rank].channels[0][index];
}

Operand& operand(Schedule& schedule, size_t rank, size_t index, size_t which) {
  return schedule.programs[rank].operands[step(schedule, rank, index).first_operand + which];
}

void erase(Schedule& schedule, size_t rank, size_t index) {
  auto& steps = schedule.programs[rank].channels[0];
  steps.erase(steps.begin() + static_cast<ptrdiff_t>(index));
}

Schedule make(const std::string& algorithm, Op op) {
  Spec spec;
  spec.op = op;
  spec.ranks = 3;
  spec.count = op == Op::kBarrier ? 0 : 96;
  return *build_schedule(*find_algorithm(algorithm), spec);
}

class Mistakes : public ::testing::TestWithParam<Case> {};

TEST_P(Mistakes, AreFoundWithPlaceAndReason) {
  Schedule schedule = make(GetParam().algorithm, GetParam().op);
  ASSERT_TRUE(verify(schedule).ok());
  GetParam().change(schedule);
  const Verification result = verify(schedule);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(mistake_name(result.findings.front().mistake), mistake_name(GetParam().mistake));
  EXPECT_THAT(finding_text(result.findings.front()), HasSubstr(GetParam().text));
}

// direct all_reduce: step 0 barrier, 1 reduce of 32 elements, 2 barrier.
// mesh reduce_scatter: put, signal to each peer (0-3), wait for each (4, 5), reduce (6).
INSTANTIATE_TEST_SUITE_P(
    Kinds, Mistakes,
    ::testing::Values(
        Case{"BeyondTheEnd", "direct", Op::kAllReduce,
             [](Schedule& s) { operand(s, 1, 1, 0).offset = 90; }, Mistake::kBounds,
             "rank 1, channel 0, step 1: in of rank 0: [90, +32) is beyond its 96 elements"},
        Case{"NoSuchRank", "direct", Op::kAllReduce,
             [](Schedule& s) { operand(s, 1, 1, 0).rank = 7; }, Mistake::kMalformed,
             "operand of rank 7: expected ranks 0 to 2"},
        Case{"WritesIn", "direct", Op::kAllReduce,
             [](Schedule& s) { operand(s, 2, 1, 3).buffer = Buffer::kIn; }, Mistake::kAccess,
             "rank 2, channel 0, step 1: writes in of rank 0"},
        Case{"PrivateMemory", "direct", Op::kAllReduce,
             [](Schedule& s) { s.spec.access = Access::kStaged; }, Mistake::kAccess,
             "in of rank 1 is private (staged access)"},
        Case{"PartlyOverlapping", "ring", Op::kAllGather,
             [](Schedule& s) {
               step(s, 0, 2).kind = StepKind::kCopy;
               operand(s, 0, 2, 0) = {0, Buffer::kOut, 0};
               operand(s, 0, 2, 1) = {0, Buffer::kOut, 10};
             },
             Mistake::kAliasing, "rank 0, channel 0, step 2: output out of rank 0 at 10 overlaps"},
        Case{"ReducesTwice", "ring", Op::kAllReduce,
             [](Schedule& s) { s.spec.op = Op::kAllGather, s.spec.count = 32; }, Mistake::kBounds,
             "in of rank"},
        Case{"SumsOfPartsAreNoElements", "tree", Op::kAllReduce,
             [](Schedule& s) {
               for (auto& it : s.programs[0].operands) {
                 it.buffer =
                     it.buffer == Buffer::kOut && it.rank == 0 ? Buffer::kPartial : it.buffer;
               }
               s.programs[0].partial_elements = 4000;
             },
             Mistake::kType, "rank 0, channel 0, step"},
        Case{"LostSignal", "mesh", Op::kReduceScatter, [](Schedule& s) { erase(s, 1, 1); },
             Mistake::kMalformed, "counter 0 from rank 1 to rank 2: 0 signals, 1 awaited"},
        Case{"SignalTooEarly", "mesh", Op::kReduceScatter,
             [](Schedule& s) { std::swap(step(s, 1, 0), step(s, 1, 1)); }, Mistake::kRace,
             "step 6: reads scratch of rank 2 [96, +96) while rank 1, channel 0, step 1 writes it"},
        Case{"WaitTooLate", "mesh", Op::kReduceScatter,
             [](Schedule& s) { std::swap(step(s, 0, 5), step(s, 0, 6)); }, Mistake::kRace,
             "rank 0, channel 0, step 5: reads scratch of rank 0 [96, +96) while rank 1"},
        Case{"NothingArrived", "ring", Op::kAllReduce, [](Schedule& s) { erase(s, 1, 0); },
             Mistake::kUnwritten, "rank 2, channel 0, step 3: reads scratch of rank 2 at 0"},
        Case{"WaitsForEachOther", "mesh", Op::kReduceScatter,
             [](Schedule& s) {
               for (size_t rank = 0; rank < 3; ++rank) {
                 auto& steps = s.programs[rank].channels[0];
                 std::rotate(steps.begin(), steps.begin() + 4, steps.begin() + 6);
               }
             },
             Mistake::kDeadlock, "rank 0, channel 0, step 0: waits for 1 of rank"},
        Case{"BarrierOfSome", "direct", Op::kAllReduce, [](Schedule& s) { erase(s, 2, 0); },
             Mistake::kMalformed, "channel 0: rank 0 has 2 barriers, rank 2 has 1"},
        Case{"NoBarrierBefore", "direct", Op::kAllReduce,
             [](Schedule& s) {
               for (size_t rank = 0; rank < 3; ++rank) {
                 erase(s, rank, 0);
               }
             },
             Mistake::kAccess, "before it is known to have entered"},
        Case{"NoBarrierAfter", "direct", Op::kAllReduce,
             [](Schedule& s) {
               for (size_t rank = 0; rank < 3; ++rank) {
                 erase(s, rank, 2);
               }
             },
             Mistake::kAccess, "rank 0 may have left when its memory is touched"},
        Case{"MissingContribution", "direct", Op::kAllReduce,
             [](Schedule& s) {
               step(s, 1, 1).first_operand += 1;
               step(s, 1, 1).inputs -= 1;
             },
             Mistake::kResult, "out [32, +32): expected rank 0 once, found it missing (ranks 1 2)"},
        Case{"TwiceTheSame", "direct", Op::kAllReduce,
             [](Schedule& s) { operand(s, 1, 1, 0).rank = 2; }, Mistake::kResult,
             "expected rank 0 once, found it missing (ranks 2 1 2)"},
        Case{"WrongElement", "direct", Op::kAllReduce,
             [](Schedule& s) { operand(s, 1, 1, 0).offset -= 1; }, Mistake::kResult,
             "rank 0: out [32, +1): expected element 32 of in, found element 31 of rank 0"},
        Case{"WritesMoreThanTheResult", "direct", Op::kAllGather,
             [](Schedule& s) { s.spec.stride = 100; }, Mistake::kResult,
             "rank 0: writes [96, +4), which is no part of the result"},
        Case{"OtherOrder", "direct", Op::kAllReduce,
             [](Schedule& s) {
               s.spec.deterministic = true;
               std::swap(operand(s, 1, 1, 0), operand(s, 1, 1, 1));
             },
             Mistake::kOrder, "out [32, +32) is not reduced in the order of ranks: 1 0 2"},
        Case{"OtherBits", "single-step-mesh", Op::kAllReduce,
             [](Schedule& s) {
               auto& operands = s.programs[2].operands;
               std::swap(operands[operands.size() - 4], operands[operands.size() - 3]);
             },
             Mistake::kOrder, "rank 2: out at 0 is reduced in the order 1 0 2, on rank 0"},
        Case{"LeavesABarrierAlone", "dissemination", Op::kBarrier,
             [](Schedule& s) {
               for (auto& program : s.programs) {
                 program.channels[0].clear();
               }
             },
             Mistake::kResult, "rank 0: may leave before rank 1 has entered"},
        Case{"RunsAhead", "permute", Op::kPermute,
             [](Schedule& s) {
               for (auto& program : s.programs) {
                 program.alternate_scratch = true;
               }
             },
             Mistake::kRunAhead, "rank 0: may leave before rank 1 has entered"}),
    [](const ::testing::TestParamInfo<Case>& tested) { return tested.param.name; });

// x0 + (x1 + x2) is another sum than (x0 + x1) + x2, though the terms stand in order.
TEST(Verify, GroupedSumsAreNotTheOrderOfRanks) {
  Schedule schedule = make("tree", Op::kReduce);
  schedule.spec.deterministic = true;
  EXPECT_TRUE(verify(schedule).ok());  // 3 ranks: both children are leaves
  Spec spec = schedule.spec;
  spec.deterministic = false;
  spec.ranks = 4;
  schedule = *build_schedule(*find_algorithm("tree"), spec);
  schedule.spec.deterministic = true;
  const Verification result = verify(schedule);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.findings.front().mistake, Mistake::kOrder);
}

// Rank 1's second channel reads what its first one receives.
TEST(Verify, ChannelsOfARankAreOrderedOnlyBySignals) {
  Spec spec;
  spec.op = Op::kBroadcast;
  spec.ranks = 2;
  spec.count = 8;
  Schedule schedule;
  schedule.spec = spec;
  ProgramBuilder root(spec, 0);
  root.wait(1);
  root.move(root.in(0), {1, Buffer::kScratch, 0}, 8);
  root.move(root.in(0), root.out(0), 8);
  root.signal(1);
  schedule.programs.push_back(root.take());
  ProgramBuilder other(spec, 1);
  other.set_scratch(8);
  other.signal(0);
  other.wait(0);
  other.use_channel(1);
  other.wait(1);
  other.move(other.scratch(0), other.out(0), 8);
  other.use_channel(0);
  schedule.programs.push_back(other.take());
  Step hand_over;
  hand_over.kind = StepKind::kSignal;
  hand_over.peer = 1;
  hand_over.counter = 1;
  hand_over.amount = 1;
  schedule.programs[1].channels[0].push_back(hand_over);
  EXPECT_TRUE(verify(schedule).ok());
  // Handed over before it has arrived.
  std::swap(schedule.programs[1].channels[0][1], schedule.programs[1].channels[0][2]);
  EXPECT_FALSE(verify(schedule).ok());
}

TEST(Verify, StepsOfThirtyTwoFindingsAtMost) {
  Spec spec;
  spec.ranks = 64;
  spec.count = 64;
  Schedule schedule = *build_schedule(*find_algorithm("direct"), spec);
  for (RankProgram& program : schedule.programs) {
    program.channels[0].clear();
  }
  EXPECT_EQ(verify(schedule).findings.size(), kMostFindings);
}

TEST(Verify, RefusesWhatWouldTakeTooMuchMemory) {
  Schedule schedule;
  schedule.spec.op = Op::kBarrier;
  schedule.spec.ranks = kMaxRanks;
  schedule.programs.resize(kMaxRanks);
  for (RankProgram& program : schedule.programs) {
    program.channels.resize(kMaxChannels);
  }
  EXPECT_THAT(std::string(check_schedule(schedule).message()), HasSubstr("too large to verify"));
}

}  // namespace
}  // namespace onrt::cc
