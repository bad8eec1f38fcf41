// SPDX-License-Identifier: Apache-2.0
// Operations of several groups at once: subgroups of a job, also such that share ranks. Each
// schedule is right by itself; what is left to prove is that the order in which ranks issue them
// ends.
#pragma once

#include <span>
#include <vector>

#include "collectives/plan/schedule.h"

namespace onrt::cc {

// An operation of a group: place i of the group is rank members[i] of the job.
struct GroupCall {
  std::vector<int> members;
  const Schedule* schedule = nullptr;  // verified; borrowed
};

// issued[rank]: indices of `calls` in the order in which the rank starts them, each after the one
// before has ended. NRT_INVALID when a rank issues what it is no member of, leaves one out or
// repeats it, or when ranks wait for each other for ever: names for each what it is in and whom it
// waits for.
Status check_group_order(std::span<const GroupCall> calls,
                         const std::vector<std::vector<size_t>>& issued);

}  // namespace onrt::cc
