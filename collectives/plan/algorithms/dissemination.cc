// SPDX-License-Identifier: Apache-2.0
// dissemination: a barrier in log n steps for any n: at step k a rank signals rank + 2^k and waits
// for rank - 2^k.
//
// Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", Int. J.
// Parallel Programming 17 (1988) 1-17.
#include <bit>

#include "collectives/plan/algorithm.h"
#include "collectives/plan/algorithms/blocks.h"

namespace onrt::cc {
namespace {

void build(ProgramBuilder& b) {
  for (int distance = 1; distance < b.ranks(); distance *= 2) {
    b.signal(modulo(b.rank() + distance, b.ranks()));
    b.wait(modulo(b.rank() - distance, b.ranks()));
  }
}

Status supports(const Spec& spec) {
  static_cast<void>(spec);
  return {};
}

Cost cost(const Spec& spec) {
  return {static_cast<double>(std::bit_width(static_cast<unsigned>(spec.ranks - 1))), 0, 0};
}

}  // namespace

Algorithm dissemination_algorithm() {
  return {"dissemination",
          "log n steps, no data",
          "Hensgen, Finkel and Manber, Int. J. Parallel Programming 17 (1988)",
          {Op::kBarrier},
          supports,
          build,
          cost};
}

}  // namespace onrt::cc
