// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/fault_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace onrt {
namespace {

using ::testing::HasSubstr;

FaultCounter counter_of(std::string_view text) {
  auto plan = FaultPlan::parse(text);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return FaultCounter(std::move(plan).value());
}

TEST(FaultPlan, NthCallFailsAndOthersDoNot) {
  FaultCounter counter = counter_of("dma@3=1203;allocate@1=4");
  EXPECT_EQ(counter.next(FaultOperation::kDma), nullptr);
  EXPECT_EQ(counter.next(FaultOperation::kDma), nullptr);
  const FaultRule* rule = counter.next(FaultOperation::kDma);
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->status, NRT_EXEC_HW_ERR_DMA_ABORT);
  EXPECT_EQ(counter.next(FaultOperation::kDma), nullptr);
  ASSERT_NE(counter.next(FaultOperation::kAllocate), nullptr);
  EXPECT_EQ(counter.next(FaultOperation::kLoad), nullptr);
}

TEST(FaultPlan, PlusMeansEveryLaterCallToo) {
  FaultCounter counter = counter_of("load@2+=2");
  EXPECT_EQ(counter.next(FaultOperation::kLoad), nullptr);
  EXPECT_NE(counter.next(FaultOperation::kLoad), nullptr);
  EXPECT_NE(counter.next(FaultOperation::kLoad), nullptr);
}

TEST(FaultPlan, SameSeedGivesTheSameFaults) {
  FaultCounter first = counter_of("seed=7;dma%25=1203");
  FaultCounter second = counter_of("dma%25=1203;seed=7");
  int faults = 0;
  for (int i = 0; i < 4000; ++i) {
    const bool hit = first.next(FaultOperation::kDma) != nullptr;
    EXPECT_EQ(hit, second.next(FaultOperation::kDma) != nullptr);
    faults += hit ? 1 : 0;
  }
  // 4000 draws at 25 %: mean 1000, standard deviation 27.
  EXPECT_NEAR(faults, 1000, 150);
}

TEST(FaultPlan, EndlessIsForProgramsOnly) {
  FaultCounter counter = counter_of("program@1=endless");
  const FaultRule* rule = counter.next(FaultOperation::kProgram);
  ASSERT_NE(rule, nullptr);
  EXPECT_TRUE(rule->endless);
  EXPECT_EQ(rule->status, NRT_TIMEOUT);
  EXPECT_FALSE(FaultPlan::parse("dma@1=endless").ok());
}

TEST(FaultPlan, BadItemsAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"dma", "expected operation@n"},
      {"dma@0=1203", "call number from 1"},
      {"dma@=1203", "call number from 1"},
      {"dma@1=", "status number"},
      {"dma@1=0", "status number"},
      {"dma@1=99999", "status number"},
      {"dmx@1=1203", "unknown operation 'dmx'"},
      {"dma%0=1203", "percentage"},
      {"dma%101=1203", "percentage"},
      {"dma%nan=1203", "percentage"},
      {"seed=x", "whole number"},
      {"=@", "expected operation@n"},
  };
  for (const auto& [text, expected] : cases) {
    const auto plan = FaultPlan::parse("allocate@1=4;" + text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_EQ(plan.status().code(), NRT_INVALID);
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr(expected));
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr("'" + text + "'"));
  }
}

TEST(FaultPlan, EmptyItemsAreIgnored) {
  const auto plan = FaultPlan::parse(";;dma@1=1203;");
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->rules().size(), 1u);
}

}  // namespace
}  // namespace onrt
