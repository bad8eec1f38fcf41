// SPDX-License-Identifier: Apache-2.0
// The part of the verifier that compares the buffers' last values with the operation's definition.
#pragma once

#include <optional>

#include "collectives/plan/memory_map.h"
#include "collectives/plan/verify.h"

namespace onrt::cc {

// A range of out and what it must hold.
struct Expected {
  uint64_t first = 0;  // in out
  uint64_t count = 0;
  std::optional<int> source;  // whose in; nothing: the reduction of all ranks'
  uint64_t origin = 0;        // offset in in
};
// Of one rank; ranges in ascending order. What is in no range must stay as it was.
std::vector<Expected> expected_result(const Spec& spec, int rank);

// memory[rank][region]
std::vector<Finding> check_result(const Schedule& schedule,
                                  std::vector<std::vector<MemoryMap>>& memory,
                                  const ValueTable& values);

}  // namespace onrt::cc
