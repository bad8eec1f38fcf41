// SPDX-License-Identifier: Apache-2.0
// Which algorithm runs an operation. A function of what all ranks have agreed on, hence the same on
// all of them; measured tables and overrides come on top of it, decided once by rank 0.
#pragma once

#include <string>
#include <string_view>

#include "collectives/plan/algorithm.h"

namespace onrt::cc {

// What a round and a byte cost between the ranks (seconds).
struct LinkModel {
  double alpha = 0.4e-6;      // a signal that somebody waits for
  double beta = 1.0 / 12e9;   // a byte moved
  double gamma = 1.0 / 24e9;  // a byte read by a reduction
};
// Shared memory of one host. alpha grows with the ranks that share a core: `ranks_per_core` >= 1.
LinkModel shared_memory_model(double ranks_per_core);

double estimate_seconds(const Cost& cost, const LinkModel& link);

struct Choice {
  const Algorithm* algorithm = nullptr;
  // For the log and --show-algorithm: "direct: 3.1 us by the model; ring 9.8 us, mesh 6.0 us".
  std::string why;
};

// The cheapest algorithm that supports the spec; earlier rows win ties. `forced`: that one, "" for
// none. NRT_INVALID when the forced one is unknown or can't (names those that can), or none can
// (with every algorithm's reason).
Result<Choice> choose(const Spec& spec, const LinkModel& link, std::string_view forced = "");

}  // namespace onrt::cc
