// SPDX-License-Identifier: Apache-2.0
// Pictures of schedules: a lane for each channel of each rank, steps from left to right by what
// they wait for, arrows for data between ranks and for signals.
#pragma once

#include <string>
#include <string_view>

#include "collectives/plan/schedule.h"

namespace onrt::cc {

// More would be no picture.
inline constexpr uint64_t kMostDrawnSteps = 20000;

// Graphviz: one cluster a lane.
Result<std::string> draw_dot(const Schedule& schedule);
// A file of its own, without scripts; steps that never run (a deadlock) have a red frame.
Result<std::string> draw_svg(const Schedule& schedule);

// One line: "reduce 2 -> 1 x 16", "put -> 3 x 16", "wait 2".
std::string step_label(const RankProgram& program, const Step& step);
// With every operand: "reduce in[0] of 1, scratch[16] -> out[0], 16 elements".
std::string step_text(const RankProgram& program, const Step& step, int rank);

}  // namespace onrt::cc
