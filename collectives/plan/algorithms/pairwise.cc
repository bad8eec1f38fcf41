// SPDX-License-Identifier: Apache-2.0
// pairwise: alltoall(v) in n - 1 steps; at step i a rank sends to rank + i and receives from
// rank - i, so that every rank has one sender at a time. (n - 1) blocks sent.
//
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005) 49-66, 4.3.
#include "collectives/plan/algorithm.h"
#include "collectives/plan/algorithms/blocks.h"

namespace onrt::cc {
namespace {

uint64_t block_count(const Spec& spec, int from, int to) {
  return spec.op == Op::kAllToAll
             ? spec.count
             : spec.counts[static_cast<size_t>(from) * static_cast<size_t>(spec.ranks) +
                           static_cast<size_t>(to)];
}

// Where in to's scratch the block of `from` arrives: packed in the order of ranks.
uint64_t scratch_offset(const Spec& spec, int from, int to) {
  if (spec.op == Op::kAllToAll) {
    return static_cast<uint64_t>(from) * spec.count;
  }
  uint64_t offset = 0;
  for (int other = 0; other < from; ++other) {
    offset += block_count(spec, other, to);
  }
  return offset;
}

void build(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  const int n = b.ranks();
  const int rank = b.rank();
  // In place, what arrives would overwrite what has not left.
  const bool through_scratch = spec.access == Access::kStaged || spec.in_place;
  b.set_alternate_scratch();
  b.set_scratch(through_scratch ? scratch_offset(spec, n, rank) : 0);
  for (int i = 1; i < n && !through_scratch; ++i) {
    b.signal(modulo(rank - i, n));  // our out may be written
  }
  b.move(b.in(spec.in_offset(rank, rank)), b.out(spec.out_offset(rank, rank)),
         block_count(spec, rank, rank));
  for (int i = 1; i < n; ++i) {
    const int to = modulo(rank + i, n);
    if (!through_scratch) {
      b.wait(to);
    }
    b.move(b.in(spec.in_offset(rank, to)),
           through_scratch ? Operand{to, Buffer::kScratch, scratch_offset(spec, rank, to)}
                           : Operand{to, Buffer::kOut, spec.out_offset(rank, to)},
           block_count(spec, rank, to));
    b.signal(to);
  }
  for (int i = 1; i < n; ++i) {
    const int from = modulo(rank - i, n);
    b.wait(from);
    if (through_scratch) {
      b.move(b.scratch(scratch_offset(spec, from, rank)), b.out(spec.out_offset(from, rank)),
             block_count(spec, from, rank));
    }
  }
}

Status supports(const Spec& spec) {
  static_cast<void>(spec);
  return {};
}

Cost cost(const Spec& spec) {
  const double n = spec.ranks;
  uint64_t most = 0;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    most = std::max(most, in_elements(spec, rank));
  }
  const double all = static_cast<double>(most) * spec.element_bytes;
  const bool twice = spec.access == Access::kStaged || spec.in_place;
  return {twice ? n - 1 : n, all * (twice ? 2 : 1), 0};
}

}  // namespace

Algorithm pairwise_algorithm() {
  return {"pairwise",
          "n-1 steps, n-1 blocks sent, one partner at a time",
          "Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005), 4.3",
          {Op::kAllToAll, Op::kAllToAllV},
          supports,
          build,
          cost};
}

}  // namespace onrt::cc
