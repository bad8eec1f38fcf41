// SPDX-License-Identifier: Apache-2.0
#include "tools/opennrt_flight/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <cstring>
#include <utility>

#include "collectives/plan/schedule.h"
#include "runtime/base/dtype.h"

namespace onrt::tools {
namespace {

using cc::FlightEntry;
using cc::FlightFile;
using cc::FlightState;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

FlightEntry call(uint64_t number, FlightState state, int peer = -1, uint64_t digest = 1) {
  FlightEntry entry;
  entry.number = number;
  entry.call.call = number;
  entry.call.op = static_cast<uint8_t>(cc::Op::kAllReduce);
  entry.call.dtype = static_cast<uint8_t>(Dtype::kF32);
  entry.call.count = 16;
  entry.call.digest = digest;
  entry.start_ns = 1000 * number;
  entry.state = static_cast<uint32_t>(state);
  entry.peer = peer;
  return entry;
}

FlightFile file(int rank, std::vector<FlightEntry> entries, int size = 3) {
  FlightFile out;
  out.path = "job." + std::to_string(rank);
  out.header.job = 7;
  out.header.rank = rank;
  out.header.size = size;
  out.header.pid = 100 + rank;
  out.entries = std::move(entries);
  return out;
}

Verdict verdict_of(std::vector<FlightFile> files) {
  const auto job = merge(std::move(files));
  EXPECT_TRUE(job.ok()) << job.status().message();
  return judge(*job);
}

constexpr auto kDone = FlightState::kDone;
constexpr auto kFailed = FlightState::kFailed;
constexpr auto kRunning = FlightState::kRunning;

TEST(FlightVerdict, WithoutFailuresThereIsNoCulprit) {
  const Verdict verdict = verdict_of({file(0, {call(1, kDone)}), file(1, {call(1, kDone)})});
  EXPECT_EQ(verdict.kind, VerdictKind::kNothing);
  EXPECT_THAT(verdict.culprits, ElementsAre());
}

TEST(FlightVerdict, ARankThatNeverEnteredIsBehind) {
  const Verdict verdict =
      verdict_of({file(0, {call(1, kDone), call(2, kFailed, 1)}),
                  file(1, {call(1, kDone), call(2, kFailed, 2)}), file(2, {call(1, kDone)})});
  EXPECT_EQ(verdict.kind, VerdictKind::kBehind);
  EXPECT_THAT(verdict.culprits, ElementsAre(2));
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("rank 2 (pid 102) never entered all_reduce(sum, "
                                            "f32, 16 elements), number 2"),
                                  HasSubstr("number 1 (done)")));
}

TEST(FlightVerdict, ARankWithoutARecordInTheGroupIsFoundByThoseWhoWaitedForIt) {
  const Verdict verdict =
      verdict_of({file(0, {call(1, kFailed, 2)}), file(1, {call(1, kFailed, 2)}), file(2, {})});
  EXPECT_THAT(verdict.culprits, ElementsAre(2));
  EXPECT_THAT(verdict.text, HasSubstr("it has begun no operation"));
}

TEST(FlightVerdict, ARankThatIsStillInACallThatOthersGaveUpIsStuck) {
  const Verdict verdict = verdict_of({file(0, {call(1, kFailed, 1)}), file(1, {call(1, kRunning)}),
                                      file(2, {call(1, kFailed, 0)})});
  EXPECT_EQ(verdict.kind, VerdictKind::kStuck);
  EXPECT_THAT(verdict.culprits, ElementsAre(1));
}

// It was stopped between its last step and the note that it is done.
TEST(FlightVerdict, ARankThatIsStillInACallThatOthersHaveLeftIsStuck) {
  const Verdict verdict =
      verdict_of({file(0, {call(1, kDone), call(2, kFailed, 2)}),
                  file(1, {call(1, kDone), call(2, kFailed, 2)}), file(2, {call(1, kRunning)})});
  EXPECT_EQ(verdict.kind, VerdictKind::kStuck);
  EXPECT_THAT(verdict.culprits, ElementsAre(2));
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("rank 2 (pid 102)"), HasSubstr("had left it")));
}

TEST(FlightVerdict, DifferentCallsNameTheMinority) {
  const Verdict verdict =
      verdict_of({file(0, {call(1, kFailed)}), file(1, {call(1, kFailed, -1, 9)}),
                  file(2, {call(1, kFailed)})});
  EXPECT_EQ(verdict.kind, VerdictKind::kDiffer);
  EXPECT_THAT(verdict.culprits, ElementsAre(1));
}

TEST(FlightVerdict, WhenAllFailedTheOneThatMostWaitedForIsNamed) {
  const Verdict verdict =
      verdict_of({file(0, {call(1, kFailed, 2)}), file(1, {call(1, kFailed, 2)}),
                  file(2, {call(1, kFailed, 0)})});
  EXPECT_EQ(verdict.kind, VerdictKind::kUnclear);
  EXPECT_THAT(verdict.culprits, ElementsAre(2));
  EXPECT_THAT(verdict.text, HasSubstr("2 of 3 ranks waited for rank 2"));
}

TEST(FlightMerge, RefusesRecordsThatDoNotBelongTogether) {
  FlightFile other = file(1, {});
  other.header.job = 8;
  EXPECT_FALSE(merge({file(0, {}), other}).ok());
  EXPECT_FALSE(merge({file(0, {}), file(0, {})}).ok());
  EXPECT_FALSE(merge({file(5, {})}).ok());
  EXPECT_FALSE(merge({}).ok());
  const auto job = merge({file(2, {}), file(0, {})});
  ASSERT_TRUE(job.ok());
  EXPECT_THAT((*job).without_record, ElementsAre(1));
}

TEST(FlightMerge, HostileNumbersAreOnlyPrinted) {
  FlightEntry entry = call(1, kFailed, 12345);
  entry.call.op = 200;
  entry.call.dtype = 250;
  entry.state = 99;
  EXPECT_THAT(describe(entry), HasSubstr("operation 200"));
  const Verdict verdict = verdict_of({file(0, {entry, call(2, kFailed, -7)})});
  EXPECT_EQ(verdict.kind, VerdictKind::kUnclear);
}

// Found by flight_fuzz: a damaged header took all memory for ranks "without a record".
TEST(FlightFiles, OfMoreRanksThanThereCanBeAreRefused) {
  std::vector<std::byte> bytes(sizeof(cc::FlightHeader) + cc::kFlightEntries * sizeof(FlightEntry));
  const auto parsed = [&](int rank, int size) {
    cc::FlightHeader header;
    header.rank = rank;
    header.size = size;
    std::memcpy(bytes.data(), &header, sizeof(header));
    return cc::parse_flight(bytes, "record");
  };
  EXPECT_TRUE(parsed(0, 1).ok());
  EXPECT_TRUE(parsed(4095, 4096).ok());
  for (const auto& [rank, size] : {std::pair(0, 0), std::pair(0, -1), std::pair(0, INT_MAX),
                                   std::pair(3, 3), std::pair(-1, 3)}) {
    const auto file = parsed(rank, size);
    ASSERT_FALSE(file.ok()) << rank << " of " << size;
    EXPECT_THAT(std::string(file.status().message()), HasSubstr("record: no flight record"));
  }
}

}  // namespace
}  // namespace onrt::tools
