// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/schedule_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/plan/algorithm.h"
#include "collectives/plan/testing/specs.h"

namespace onrt::cc {
namespace {

using ::testing::HasSubstr;

TEST(ScheduleJson, EverySpecReadsBackEqual) {
  for (const Algorithm& algorithm : algorithms()) {
    for (int op = 0; op < kOps; ++op) {
      for (const Spec& spec : testing::few_specs_of(static_cast<Op>(op), 4)) {
        const auto schedule = build_schedule(algorithm, spec);
        if (!schedule.ok()) {
          continue;
        }
        const auto read = import_schedule(export_schedule(*schedule));
        ASSERT_TRUE(read.ok()) << read.status().message();
        EXPECT_EQ(*read, *schedule) << algorithm.name << " " << testing::spec_text(spec);
      }
    }
  }
}

std::string small_text() {
  Spec spec;
  spec.op = Op::kBroadcast;
  spec.ranks = 2;
  spec.count = 4;
  return export_schedule(*build_schedule(*find_algorithm("tree"), spec));
}

struct Damage {
  std::string name;
  std::string from;
  std::string to;
  std::string message;
};

class Damaged : public ::testing::TestWithParam<Damage> {};

TEST_P(Damaged, TextsAreRefusedWithWhatWasExpected) {
  std::string text = small_text();
  const size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, GetParam().from.size(), GetParam().to);
  const auto read = import_schedule(text);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), NRT_INVALID);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, Damaged,
    ::testing::Values(
        Damage{"Format", "opennrt-schedule", "other", "format: expected 'opennrt-schedule'"},
        Damage{"Version", "\"version\": 1", "\"version\": 2", "version"},
        Damage{"Operation", "\"op\":\"broadcast\"", "\"op\":\"broadcasts\"",
               "spec: operation 'broadcasts': expected one of"},
        Damage{"Ranks", "\"ranks\":2", "\"ranks\":9999999999", "ranks"},
        Damage{"Negative", "\"count\":4", "\"count\":-4", "count"},
        Damage{"Flag", "\"in_place\":false", "\"in_place\":0",
               "'in_place': expected true or false"},
        Damage{"Access", "\"access\":\"direct\"", "\"access\":\"magic\"",
               "access: expected direct or staged, found 'magic'"},
        Damage{"Misspelt", "\"slices\"", "\"slice\"", "spec: unknown member 'slice'"},
        Damage{"StepName", "\"do\":\"put\"", "\"do\":\"push\"",
               "rank 0, channel 0, step 1: step 'push': expected one of"},
        Damage{"StepMember", "\"do\":\"signal\",", "\"do\":\"signal\",\"count\":1,",
               "signal: unknown member 'count'"},
        Damage{"OperandShape", "[0,\"in\",0]", "[0,\"in\"]", "expected [rank, buffer, offset]"},
        Damage{"Buffer", "[0,\"in\",0]", "[0,\"inn\",0]", "buffer 'inn': expected one of"},
        Damage{"NotVerified", "[0,\"in\",0]", "[0,\"in\",1]", "is beyond its 4 elements (bounds)"},
        Damage{"Syntax", "\"programs\": [", "\"programs\": ", ""}),
    [](const ::testing::TestParamInfo<Damage>& tested) { return tested.param.name; });

TEST(ScheduleJson, ParsingAloneDoesNotVerify) {
  std::string text = small_text();
  text.replace(text.find("[0,\"in\",0]"), 10, "[0,\"in\",1]");
  EXPECT_TRUE(parse_schedule(text).ok());
}

}  // namespace
}  // namespace onrt::cc
