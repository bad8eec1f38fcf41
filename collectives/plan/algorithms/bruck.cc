// SPDX-License-Identifier: Apache-2.0
// bruck: log n steps for any number of ranks, for small messages.
//
// all_gather: with distance d = 1, 2, 4, ... a rank sends the first d blocks it has to rank - d and
// gets d more from rank + d; in the end they are turned into place. (n - 1) blocks sent.
// alltoall: blocks travel by the bits of the distance to their target; n/2 blocks sent a step.
//
// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all
// communications in multiport message-passing systems", IEEE TPDS 8 (1997) 1143-1156.
#include <bit>

#include "collectives/plan/algorithm.h"
#include "collectives/plan/algorithms/blocks.h"

namespace onrt::cc {
namespace {

int rounds(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }

void all_gather(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  const int n = b.ranks();
  b.set_scratch(static_cast<uint64_t>(n) * spec.count);
  // Slot i of scratch: the block of rank + i.
  b.move(b.in(0), b.scratch(0), spec.count);
  for (int distance = 1; distance < n; distance *= 2) {
    const int to = modulo(b.rank() - distance, n);
    const auto blocks = static_cast<uint64_t>(std::min(distance, n - distance));
    b.move(b.scratch(0), {to, Buffer::kScratch, static_cast<uint64_t>(distance) * spec.count},
           blocks * spec.count);
    b.signal(to);
    b.wait(modulo(b.rank() + distance, n));
  }
  for (int i = 0; i < n; ++i) {
    const uint64_t from = static_cast<uint64_t>(i) * spec.count;
    b.move(i == 0 ? b.in(0) : b.scratch(from), b.out(spec.out_offset(modulo(b.rank() + i, n), 0)),
           spec.count);
  }
}

void all_to_all(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  const int n = b.ranks();
  // What now stands at distance i from its target, and the next free slot of everybody's scratch.
  std::vector<Operand> holds;
  for (int i = 0; i < n; ++i) {
    holds.push_back(b.in(spec.in_offset(b.rank(), modulo(b.rank() + i, n))));
  }
  uint64_t slot = 0;
  for (int k = 0; k < rounds(n); ++k) {
    const int to = modulo(b.rank() + (1 << k), n);
    for (int i = 0; i < n; ++i) {
      if ((i >> k & 1) != 0) {
        b.move(holds[static_cast<size_t>(i)], {to, Buffer::kScratch, slot * spec.count},
               spec.count);
        holds[static_cast<size_t>(i)] = b.scratch(slot * spec.count);
        ++slot;
      }
    }
    b.signal(to);
    b.wait(modulo(b.rank() - (1 << k), n));
  }
  b.set_scratch(slot * spec.count);
  for (int i = 0; i < n; ++i) {
    b.move(holds[static_cast<size_t>(i)], b.out(spec.out_offset(modulo(b.rank() - i, n), b.rank())),
           spec.count);
  }
}

void build(ProgramBuilder& b) {
  b.set_alternate_scratch();
  if (b.spec().op == Op::kAllGather) {
    all_gather(b);
  } else {
    all_to_all(b);
  }
}

Status supports(const Spec& spec) {
  static_cast<void>(spec);
  return {};
}

Cost cost(const Spec& spec) {
  const double n = spec.ranks;
  const double block = static_cast<double>(spec.count) * spec.element_bytes;
  const double steps = rounds(spec.ranks);
  if (spec.op == Op::kAllGather) {
    return {steps, block * 2 * n, 0};
  }
  return {steps, block * (steps * n / 2 + n), 0};
}

}  // namespace

Algorithm bruck_algorithm() {
  return {"bruck",
          "log n steps; all_gather sends n-1 blocks, alltoall n/2 log n",
          "Bruck et al., IEEE TPDS 8 (1997)",
          {Op::kAllGather, Op::kAllToAll},
          supports,
          build,
          cost};
}

}  // namespace onrt::cc
