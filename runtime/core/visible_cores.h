// SPDX-License-Identifier: Apache-2.0
// Which cores a process asks for: NEURON_RT_VISIBLE_CORES, else NEURON_RT_NUM_CORES, else all; and
// the logical core size. Pure functions of settings and core counts.
#pragma once

#include <string_view>

#include "runtime/base/settings.h"
#include "runtime/base/status.h"
#include "runtime/driver/driver.h"

namespace onrt {

// "4", "0-3" or "0,1,2": ascending, consecutive, no blanks. NRT_INVALID says what is wrong.
Result<CoreRange> parse_visible_cores(std::string_view text);

// What the settings ask for on a machine with `total` logical cores. `start` is -1 when any run of
// `count` cores will do. An empty variable counts as not set; NUM_CORES=0 means all. NRT_INVALID
// names the variable and its value.
Result<CoreRequest> requested_cores(const Settings& settings, int total);

// 0 when not set (the machine's default holds), else 1 or 2. NRT_INVALID names the variable.
Result<int> requested_logical_core_size(const Settings& settings);

// The variable that requested_cores() obeys, for messages: "" when none is set.
std::string_view core_request_source(const Settings& settings);

}  // namespace onrt
