// SPDX-License-Identifier: Apache-2.0
// What each operation means, as plain loops over integers; and running a schedule on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/plan/schedule.h"

namespace onrt::cc::testing {

using Vectors = std::vector<std::vector<uint32_t>>;  // [rank][element]

// Outs after the operation, from ins and the outs before. Reductions are sums modulo 2^32, cut to
// `element_bytes`.
Vectors reference(const Spec& spec, const Vectors& in, const Vectors& out_before);

// Random ins.
Vectors random_inputs(const Spec& spec, uint64_t seed);
// The outs before the operation: what in place shares with in, elsewhere a pattern.
Vectors outs_before(const Spec& spec, const Vectors& in);

// "" when the schedule, interpreted with this seed, gives what the reference gives; else where it
// differs or why it stopped.
std::string run_and_compare(const Schedule& schedule, uint64_t seed, uint64_t slice);

}  // namespace onrt::cc::testing
