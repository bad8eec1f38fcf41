// SPDX-License-Identifier: Apache-2.0
// Schedules as JSON text, one step a line (docs/collectives.md has the schema). Texts are
// untrusted.
#pragma once

#include <string>
#include <string_view>

#include "collectives/plan/schedule.h"

namespace onrt::cc {

inline constexpr size_t kLargestScheduleText = 64ULL << 20;

std::string export_schedule(const Schedule& schedule);

// What the text says, not verified: for tools that show what is wrong. NRT_INVALID names the
// member, what was expected and found; members that are not in the schema are refused.
Result<Schedule> parse_schedule(std::string_view text);

// parse_schedule() and check_schedule(): the only way to a schedule that may run.
Result<Schedule> import_schedule(std::string_view text);

}  // namespace onrt::cc
