// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/execution_counters.h"

#include <algorithm>
#include <initializer_list>

namespace onrt {
namespace {

// Which counters an execution that ended with `status` adds one to. Outcomes and kinds of error are
// those of neuron-monitor's execution_summary and error_summary (SDK documentation).
struct Outcome {
  NRT_STATUS status;
  std::initializer_list<CoreCounter> counters;
};
const Outcome kOutcomes[] = {
    {NRT_EXEC_COMPLETED_WITH_NUM_ERR,
     {CoreCounter::kCompletedWithNumericalError, CoreCounter::kErrorNumerical}},
    {NRT_TIMEOUT, {CoreCounter::kTimedOut, CoreCounter::kErrorRuntime}},
    {NRT_EXEC_BAD_INPUT, {CoreCounter::kIncorrectInput, CoreCounter::kErrorInvalid}},
    {NRT_INVALID, {CoreCounter::kIncorrectInput, CoreCounter::kErrorInvalid}},
    {NRT_INVALID_HANDLE, {CoreCounter::kIncorrectInput, CoreCounter::kErrorInvalid}},
    {NRT_QUEUE_FULL, {CoreCounter::kFailedToQueue}},
    {NRT_RESOURCE, {CoreCounter::kFailedToQueue, CoreCounter::kErrorResource}},
    {NRT_EXEC_OOB,
     {CoreCounter::kCompletedWithError, CoreCounter::kErrorModel, CoreCounter::kOutOfBounds}},
    {NRT_EXEC_HW_ERR_COLLECTIVES,
     {CoreCounter::kCompletedWithError, CoreCounter::kErrorHardware,
      CoreCounter::kHardwareCollectives}},
    {NRT_EXEC_HW_ERR_HBM_UE,
     {CoreCounter::kCompletedWithError, CoreCounter::kErrorHardware, CoreCounter::kHardwareHbm}},
    {NRT_EXEC_HW_ERR_NC_UE,
     {CoreCounter::kCompletedWithError, CoreCounter::kErrorHardware, CoreCounter::kHardwareCore}},
    {NRT_EXEC_HW_ERR_DMA_ABORT,
     {CoreCounter::kCompletedWithError, CoreCounter::kErrorHardware,
      CoreCounter::kHardwareDmaAbort}},
    {NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE,
     {CoreCounter::kCompletedWithError, CoreCounter::kErrorTransient,
      CoreCounter::kHardwareRepairableHbm}},
    {NRT_EXEC_SW_NQ_OVERFLOW,
     {CoreCounter::kCompletedWithError, CoreCounter::kErrorRuntime,
      CoreCounter::kSoftwareQueueOverflow}},
    {NRT_EXEC_UNIT_UNRECOVERABLE, {CoreCounter::kCompletedWithError, CoreCounter::kErrorHardware}},
    {NRT_HW_ERROR, {CoreCounter::kCompletedWithError, CoreCounter::kErrorHardware}},
};
constexpr CoreCounter kOtherwise[] = {CoreCounter::kCompletedWithError, CoreCounter::kErrorGeneric,
                                      CoreCounter::kGenericFailure};

// Counters that loads and allocations add to as well.
bool has_several_writers(CoreCounter counter) {
  return counter == CoreCounter::kErrorResource || counter == CoreCounter::kErrorInvalid ||
         counter == CoreCounter::kGenericFailure;
}

void count(CoreStatistics& core, CoreCounter counter) {
  if (has_several_writers(counter)) {
    count_shared(core.counter(counter), 1);
  } else {
    count_alone(core.counter(counter), 1);
  }
}

}  // namespace

void count_execution(CoreStatistics& core, const ExecutionResult& result) {
  constexpr uint64_t kMicrosecond = 1000;
  const uint64_t busy_us = result.busy_ns / kMicrosecond;
  // Sub-microsecond rests would be lost: the sum is kept in ns beside it.
  const std::atomic_ref<uint64_t> sum(core.busy_ns);
  const uint64_t busy_sum = sum.load(std::memory_order_relaxed) + result.busy_ns;
  sum.store(busy_sum, std::memory_order_relaxed);
  set_alone(core.counter(CoreCounter::kTimeInUse), busy_sum / kMicrosecond);
  set_alone(core.counter(CoreCounter::kCoreTime), busy_us);
  set_alone(core.running_model, 0);
  if (result.status != NRT_SUCCESS) {
    count_failed_execution(core, result.status);
    if (result.status != NRT_EXEC_COMPLETED_WITH_NUM_ERR) {
      return;
    }
  } else {
    count_alone(core.counter(CoreCounter::kCompleted), 1);
  }
  count_alone(core.counter(CoreCounter::kInferences), 1);
  count_alone(core.counter(CoreCounter::kMultiplyAccumulates), result.multiply_accumulates);
  count_alone(core.counter(CoreCounter::kLatencyDevice), busy_us);
  count_alone(core.counter(CoreCounter::kLatencyTotal), result.wall_ns / kMicrosecond);
  count_alone(core.total_latency.buckets[latency_bucket(result.wall_ns)], 1);
  count_alone(core.device_latency.buckets[latency_bucket(result.busy_ns)], 1);
}

void count_failed_execution(CoreStatistics& core, NRT_STATUS status) {
  for (const Outcome& outcome : kOutcomes) {
    if (outcome.status == status) {
      for (const CoreCounter counter : outcome.counters) {
        count(core, counter);
      }
      return;
    }
  }
  for (const CoreCounter counter : kOtherwise) {
    count(core, counter);
  }
}

void correct_to_numerical_error(CoreStatistics& core) {
  count_alone(core.counter(CoreCounter::kCompleted), ~0ULL);
  count_failed_execution(core, NRT_EXEC_COMPLETED_WITH_NUM_ERR);
}

void count_failure(CoreStatistics& core, NRT_STATUS status) {
  CoreCounter counter = CoreCounter::kGenericFailure;
  switch (status) {
    case NRT_RESOURCE:
      counter = CoreCounter::kErrorResource;
      break;
    case NRT_LOAD_NOT_ENOUGH_NC:
      counter = CoreCounter::kErrorResourceCore;
      break;
    case NRT_INVALID:
    case NRT_INVALID_HANDLE:
      counter = CoreCounter::kErrorInvalid;
      break;
    case NRT_UNSUPPORTED_NEFF_VERSION:
      counter = CoreCounter::kUnsupportedNeffVersion;
      break;
    default:
      break;
  }
  count_shared(core.counter(counter), 1);
}

}  // namespace onrt
