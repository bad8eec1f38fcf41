// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/execution_counters.h"

#include <gtest/gtest.h>

#include "ndl/neuron_driver_shared.h"

namespace onrt {
namespace {

TEST(CoreCounters, HaveTheNumbersOfThePublicDataStore) {
  const auto number = [](CoreCounter counter) { return static_cast<int>(counter); };
  EXPECT_EQ(number(CoreCounter::kTimeInUse), NDS_NC_COUNTER_TIME_IN_USE);
  EXPECT_EQ(number(CoreCounter::kFailedToQueue), NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE);
  EXPECT_EQ(number(CoreCounter::kErrorRuntime), NDS_NC_COUNTER_ERR_RT);
  EXPECT_EQ(number(CoreCounter::kLatencyTotal), NDS_NC_COUNTER_LATENCY_TOTAL);
  EXPECT_EQ(number(CoreCounter::kUnsupportedNeffVersion),
            NDS_NC_COUNTER_ERR_UNSUPPORTED_NEFF_VERSION);
  EXPECT_EQ(number(CoreCounter::kMemoryMisc), NDS_NC_COUNTER_MEM_USAGE_MISC_DEVICE);
  EXPECT_EQ(number(CoreCounter::kMultiplyAccumulates), NDS_NC_COUNTER_MAC_COUNT);
  EXPECT_EQ(number(CoreCounter::kOutOfBounds), NDS_NC_COUNTER_OOB);
  EXPECT_EQ(number(CoreCounter::kHardwareCollectives), NDS_EXT_NC_COUNTER_HW_ERR_COLLECTIVES);
  EXPECT_EQ(number(CoreCounter::kHardwareRepairableHbm),
            NDS_EXT_NC_COUNTER_HW_ERR_REPAIRABLE_HBM_UE);
}

TEST(LatencyHistogram, ABucketHoldsWhatIsWithinASixteenthOfItsMiddle) {
  size_t last = 0;
  for (uint64_t ns = 1024; ns < 1ULL << 40; ns += ns / 7) {
    const size_t bucket = latency_bucket(ns);
    ASSERT_LT(bucket, kLatencyBuckets);
    EXPECT_GE(bucket, last);
    last = bucket;
    const auto middle = static_cast<double>(latency_of_bucket(bucket));
    EXPECT_NEAR(middle, static_cast<double>(ns), static_cast<double>(ns) / 30) << ns;
  }
  EXPECT_EQ(latency_bucket(0), 0u);
  EXPECT_EQ(latency_bucket(~0ULL), kLatencyBuckets - 1);
}

TEST(ExecutionCounters, ACompletedExecutionCountsTimesAndLatencies) {
  CoreStatistics core{};
  core.running_model = 1001;
  count_execution(core, {NRT_SUCCESS, 5'000'000, 4'000'600, 77});
  count_execution(core, {NRT_SUCCESS, 5'000'000, 4'000'600, 77});
  EXPECT_EQ(core.counter(CoreCounter::kCompleted), 2u);
  EXPECT_EQ(core.counter(CoreCounter::kInferences), 2u);
  EXPECT_EQ(core.counter(CoreCounter::kMultiplyAccumulates), 154u);
  EXPECT_EQ(core.counter(CoreCounter::kTimeInUse), 8001u);  // the rests of both are not lost
  EXPECT_EQ(core.counter(CoreCounter::kLatencyTotal), 10000u);
  EXPECT_EQ(core.total_latency.buckets[latency_bucket(5'000'000)], 2u);
  EXPECT_EQ(core.device_latency.buckets[latency_bucket(4'000'600)], 2u);
  EXPECT_EQ(core.running_model, 0u);
}

TEST(ExecutionCounters, EveryOutcomeIsOneRowOfTheExecutionSummary) {
  // Outcomes: SDK documentation, neuron-monitor user guide, execution_summary.
  struct Case {
    NRT_STATUS status;
    CoreCounter outcome;
    CoreCounter error;
  };
  for (const Case& c :
       {Case{NRT_TIMEOUT, CoreCounter::kTimedOut, CoreCounter::kErrorRuntime},
        Case{NRT_EXEC_BAD_INPUT, CoreCounter::kIncorrectInput, CoreCounter::kErrorInvalid},
        Case{NRT_EXEC_COMPLETED_WITH_NUM_ERR, CoreCounter::kCompletedWithNumericalError,
             CoreCounter::kErrorNumerical},
        Case{NRT_EXEC_HW_ERR_HBM_UE, CoreCounter::kCompletedWithError, CoreCounter::kErrorHardware},
        Case{NRT_EXEC_OOB, CoreCounter::kCompletedWithError, CoreCounter::kErrorModel},
        Case{NRT_QUEUE_FULL, CoreCounter::kFailedToQueue, CoreCounter::kFailedToQueue},
        Case{NRT_FAILURE, CoreCounter::kCompletedWithError, CoreCounter::kErrorGeneric}}) {
    CoreStatistics core{};
    count_execution(core, {c.status, 1000, 1000, 1});
    uint64_t outcomes = 0;
    for (int i = NDS_NC_COUNTER_INFER_COMPLETED; i <= NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE; ++i) {
      outcomes += core.counters[static_cast<size_t>(i)];
    }
    EXPECT_EQ(outcomes, 1u) << c.status;
    EXPECT_EQ(core.counter(c.outcome), 1u) << c.status;
    EXPECT_EQ(core.counter(c.error), 1u) << c.status;
  }
}

TEST(ExecutionCounters, NanFoundAfterwardsChangesTheOutcome) {
  CoreStatistics core{};
  count_execution(core, {NRT_SUCCESS, 1000, 1000, 1});
  correct_to_numerical_error(core);
  EXPECT_EQ(core.counter(CoreCounter::kCompleted), 0u);
  EXPECT_EQ(core.counter(CoreCounter::kCompletedWithNumericalError), 1u);
}

TEST(ExecutionCounters, FailedLoadsAndAllocationsAreCountedByStatus) {
  CoreStatistics core{};
  count_failure(core, NRT_RESOURCE);
  count_failure(core, NRT_UNSUPPORTED_NEFF_VERSION);
  count_failure(core, NRT_INVALID);
  count_failure(core, NRT_FAILURE);
  EXPECT_EQ(core.counter(CoreCounter::kErrorResource), 1u);
  EXPECT_EQ(core.counter(CoreCounter::kUnsupportedNeffVersion), 1u);
  EXPECT_EQ(core.counter(CoreCounter::kErrorInvalid), 1u);
  EXPECT_EQ(core.counter(CoreCounter::kGenericFailure), 1u);
}

}  // namespace
}  // namespace onrt
