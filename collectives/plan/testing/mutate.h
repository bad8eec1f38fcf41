// SPDX-License-Identifier: Apache-2.0
// One seeded fault in a schedule, to test the verifier.
#pragma once

#include <cstdint>
#include <string_view>

#include "collectives/plan/schedule.h"

namespace onrt::cc::testing {

enum class Mutation : uint8_t {
  kDropStep,
  kDoubleStep,
  kSwapSteps,     // with the next one of the channel
  kMoveStep,      // to another place in the channel
  kShiftOperand,  // by some elements
  kResizeStep,    // more or fewer elements
  kRedirectOperand,
  kChangeBuffer,
  kDropInput,
  kDoubleInput,
  kSwapInputs,
  kRedirectSync,  // another peer
  kChangeAmount,
  kChangeCounter,
};
inline constexpr int kMutations = 14;
std::string_view mutation_name(Mutation mutation);

// Applies the mutation somewhere; false when the schedule has no place for it, or the place that
// the seed picked gives the same schedule again.
bool mutate(Schedule& schedule, Mutation mutation, uint64_t seed);

// Kinds that can leave a schedule correct: order between independent steps, a copy done twice or of
// more than is used, the order of a sum, memory that holds the same.
bool may_be_equivalent(Mutation mutation);

}  // namespace onrt::cc::testing
