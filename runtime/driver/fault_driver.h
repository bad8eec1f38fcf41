// SPDX-License-Identifier: Apache-2.0
// Decorator that makes chosen calls of any backend fail (OPENNRT_FAULTS, fault_plan.h).
#pragma once

#include <memory>

#include "runtime/driver/driver.h"
#include "runtime/driver/fault_plan.h"

namespace onrt {

// A driver whose machines fail as `plan` says and otherwise behave as those of `driver`. Calls are
// counted per opened machine; calls of `open` per driver.
//   dma      the submission is accepted and nothing is copied; dma_wait reports the status
//   program  the start is accepted and the program doesn't run; its notification carries the
//            status. `endless`: there is no notification, so a wait ends with NRT_TIMEOUT.
//   others   the call itself returns the status and has no effect
std::unique_ptr<Driver> make_fault_driver(std::unique_ptr<Driver> driver, FaultPlan plan);

// The same for one open machine.
std::unique_ptr<Machine> make_fault_machine(std::unique_ptr<Machine> machine, FaultPlan plan);

}  // namespace onrt
