// SPDX-License-Identifier: Apache-2.0
// The part of the verifier that looks at one step at a time: fields, bounds, who may touch what.
#pragma once

#include "collectives/plan/verify.h"

namespace onrt::cc {

// A range of a rank's memory. In place, in and out are one region.
enum class Region : uint8_t { kUser, kOut, kScratch, kPartial };
inline constexpr int kRegions = 4;
struct Place {
  Region region = Region::kUser;
  uint64_t first = 0;
};
Place place_of(const Spec& spec, const Operand& operand);
uint64_t region_elements(const Schedule& schedule, int rank, Region region);

// Without findings, the schedule can be run abstractly: every operand lies within its buffer and
// every counter belongs to one channel on either side, with as many signals as waits.
std::vector<Finding> check_shape(const Schedule& schedule);

}  // namespace onrt::cc
