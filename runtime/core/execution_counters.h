// SPDX-License-Identifier: Apache-2.0
// What the runtime counts about executions, loads and allocations of a core.
#pragma once

#include <cstdint>

#include "nrt/nrt_status.h"
#include "runtime/driver/core_statistics.h"

namespace onrt {

// An execution that ended. The caller holds the core. Costs some plain stores when it completed.
struct ExecutionResult {
  NRT_STATUS status = NRT_SUCCESS;
  uint64_t wall_ns = 0;
  uint64_t busy_ns = 0;  // part of it in which the core was busy
  uint64_t multiply_accumulates = 0;
};
void count_execution(CoreStatistics& core, const ExecutionResult& result);

// Of an execution that never reached the core, or failed outside of it. The caller holds the core.
void count_failed_execution(CoreStatistics& core, NRT_STATUS status);

// The latest execution completed, and then its outputs were found to hold NaN.
void correct_to_numerical_error(CoreStatistics& core);

// A load or an allocation that failed. Any thread.
void count_failure(CoreStatistics& core, NRT_STATUS status);

}  // namespace onrt
