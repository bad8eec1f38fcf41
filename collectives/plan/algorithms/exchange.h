// SPDX-License-Identifier: Apache-2.0
// One exchange with all peers, for the meshes.
#pragma once

#include "collectives/plan/algorithms/blocks.h"
#include "collectives/plan/builder.h"

namespace onrt::cc {

// Peers in turn from the next rank on, so that not everybody starts with rank 0.
inline int peer_at(const ProgramBuilder& b, int step) { return modulo(b.rank() + step, b.ranks()); }

inline void signal_all(ProgramBuilder& b) {
  for (int i = 1; i < b.ranks(); ++i) {
    b.signal(peer_at(b, i));
  }
}

inline void wait_all(ProgramBuilder& b) {
  for (int i = 1; i < b.ranks(); ++i) {
    b.wait(peer_at(b, b.ranks() - i));
  }
}

}  // namespace onrt::cc
