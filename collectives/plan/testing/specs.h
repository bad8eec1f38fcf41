// SPDX-License-Identifier: Apache-2.0
// Specs for sweeps over algorithms: every operation, sizes that divide and sizes that do not,
// roots, in place, strides, staged and direct access, several channels and slices.
#pragma once

#include <string>
#include <vector>

#include "collectives/plan/schedule.h"

namespace onrt::cc::testing {

// "all_reduce n=4 count=17 in_place staged channels=2 slices=2"
std::string spec_text(const Spec& spec);

// Of one operation; with every combination of the fields that `algorithm` may distinguish.
std::vector<Spec> specs_of(Op op, int ranks);
// Fewer: for a quick sweep of many ranks.
std::vector<Spec> few_specs_of(Op op, int ranks);

}  // namespace onrt::cc::testing
