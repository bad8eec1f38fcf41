// SPDX-License-Identifier: Apache-2.0
// direct: peers read and write each other's memory, so nothing is moved twice.
//
// all_reduce: after a barrier every rank folds its 1/n of the message from all n inputs into all n
// outputs, then a barrier. n reads and n writes of count/n elements a rank, two barriers. With
// private buffers (staged) every rank copies its input to its scratch memory first and gathers the
// results from the peers' scratch memory last: the barriers stay two, since the scratch alternates.
//
// Source: the shared-memory collectives of MPICH and Open MPI (Graham and Shipman, "MPI Support
// for Multi-core Architectures", EuroPVM/MPI 2008) with mapped instead of staged buffers.
#include "collectives/plan/algorithm.h"
#include "collectives/plan/algorithms/blocks.h"

namespace onrt::cc {
namespace {

// Private buffers are copied to scratch memory first; so is what an operation in place overwrites.
bool shares_copies(const Spec& spec) {
  const bool exchanges = spec.op == Op::kAllToAll || spec.op == Op::kAllToAllV;
  return spec.access == Access::kStaged || (exchanges && spec.in_place);
}

uint64_t block_count(const Spec& spec, int from, int to) {
  if (spec.op == Op::kAllGatherV) {
    return spec.counts[static_cast<size_t>(from)];
  }
  if (spec.op == Op::kAllToAllV) {
    return spec.counts[static_cast<size_t>(from) * static_cast<size_t>(spec.ranks) +
                       static_cast<size_t>(to)];
  }
  return spec.count;
}

// What `from` has for `to`: in in, or packed in from's scratch memory.
uint64_t in_block(const Spec& spec, int from, int to) {
  const bool one = spec.op == Op::kAllGather || spec.op == Op::kGather || spec.op == Op::kBroadcast;
  return one ? 0 : spec.in_offset(from, to);
}

uint64_t packed_block(const Spec& spec, int from, int to) {
  uint64_t offset = 0;
  for (int other = 0; spec.op == Op::kAllToAllV && other < to; ++other) {
    offset += block_count(spec, from, other);
  }
  const bool blocks =
      spec.op == Op::kAllToAll || spec.op == Op::kReduceScatter || spec.op == Op::kScatter;
  return blocks ? static_cast<uint64_t>(to) * spec.count : offset;
}

// Block of `from` for `to`, where `to` can read it.
Operand shared_block(const Spec& spec, int from, int to) {
  if (from == to || !shares_copies(spec)) {
    return {from, Buffer::kIn, in_block(spec, from, to)};
  }
  return {from, Buffer::kScratch, packed_block(spec, from, to)};
}

// Copies what peers read of us, if they can't read in.
void share_blocks(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  if (!shares_copies(spec)) {
    return;
  }
  b.set_alternate_scratch();
  const bool same_for_all = op_has_root(spec.op)
                                ? spec.op != Op::kScatter
                                : spec.op == Op::kAllGather || spec.op == Op::kAllGatherV;
  if (same_for_all) {
    const uint64_t count = block_count(spec, b.rank(), b.rank());
    b.set_scratch(count);
    b.move(b.in(in_block(spec, b.rank(), b.rank())), b.scratch(0), count);
    return;
  }
  b.set_scratch(packed_block(spec, b.rank(), b.ranks()));
  for (int to = 0; to < b.ranks(); ++to) {
    if (to != b.rank()) {
      b.move(b.in(in_block(spec, b.rank(), to)), shared_block(spec, b.rank(), to),
             block_count(spec, b.rank(), to));
    }
  }
}

// The peers' memory is not touched any more.
void leave(ProgramBuilder& b) {
  if (!shares_copies(b.spec())) {
    b.barrier();
  }
}

// In the order of ranks: the canonical order of a reduction. Ours is read where it is.
std::vector<Operand> everyone(const ProgramBuilder& b, Buffer shared, uint64_t offset) {
  std::vector<Operand> operands;
  for (int rank = 0; rank < b.ranks(); ++rank) {
    operands.push_back(
        {rank, rank == b.rank() && shared != Buffer::kOut ? Buffer::kIn : shared, offset});
  }
  return operands;
}

void all_reduce(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  const Block mine = rank_block(spec, b.rank());
  if (!shares_copies(spec)) {
    b.barrier();
    b.reduce(everyone(b, Buffer::kIn, mine.in), everyone(b, Buffer::kOut, mine.out), mine.count);
    b.barrier();
    return;
  }
  // The copy leaves out what only we read; the result takes its place.
  const uint64_t end = mine.in + mine.count;
  b.set_alternate_scratch();
  b.set_scratch(spec.count);
  b.move(b.in(0), b.scratch(0), mine.in);
  b.move(b.in(end), b.scratch(end), spec.count - end);
  b.barrier();
  const std::vector<Operand> results = {b.scratch(mine.in), b.out(mine.out)};
  b.reduce(everyone(b, Buffer::kScratch, mine.in), results, mine.count);
  b.barrier();
  for (int i = 1; i < b.ranks(); ++i) {
    const int peer = modulo(b.rank() + i, b.ranks());
    const Block block = rank_block(spec, peer);
    b.move({peer, Buffer::kScratch, block.in}, b.out(block.out), block.count);
  }
}

void reduce_scatter(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  share_blocks(b);
  b.barrier();
  std::vector<Operand> inputs;
  for (int rank = 0; rank < b.ranks(); ++rank) {
    inputs.push_back(shared_block(spec, rank, b.rank()));
  }
  b.reduce(inputs, std::vector<Operand>{b.out(0)}, spec.count);
  leave(b);
}

// Every rank folds its part into root's out; staged: root folds all of it, from the copies.
void reduce(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  if (shares_copies(spec)) {
    b.set_alternate_scratch();
    if (b.rank() != spec.root) {
      b.set_scratch(spec.count);
      b.move(b.in(0), b.scratch(0), spec.count);
    }
    b.barrier();
    if (b.rank() == spec.root) {
      b.reduce(everyone(b, Buffer::kScratch, 0), std::vector<Operand>{b.out(0)}, spec.count);
    }
    return;
  }
  const Block mine = rank_block(spec, b.rank());
  b.barrier();
  b.reduce(everyone(b, Buffer::kIn, mine.in),
           std::vector<Operand>{{spec.root, Buffer::kOut, mine.out}}, mine.count);
  b.barrier();
}

// Each rank reads what it needs: from every peer one block, beginning with its neighbour's.
void read_blocks(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  share_blocks(b);
  b.barrier();
  for (int i = 0; i < b.ranks(); ++i) {
    const int peer = modulo(b.rank() + i, b.ranks());
    b.move(shared_block(spec, peer, b.rank()), b.out(spec.out_offset(peer, b.rank())),
           block_count(spec, peer, b.rank()));
  }
  leave(b);
}

// broadcast, scatter: from root's in; gather: into root's out.
void rooted(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  const int root = spec.root;
  const bool gather = spec.op == Op::kGather;
  if (shares_copies(spec)) {
    b.set_alternate_scratch();
  }
  if (gather ? b.rank() != root : b.rank() == root) {
    share_blocks(b);
  }
  b.barrier();
  if (!gather) {
    b.move(shared_block(spec, root, b.rank()), b.out(0), spec.count);
  } else if (!shares_copies(spec)) {
    b.move(b.in(0), {root, Buffer::kOut, spec.out_offset(b.rank(), root)}, spec.count);
  } else if (b.rank() == root) {
    for (int peer = 0; peer < b.ranks(); ++peer) {
      b.move(shared_block(spec, peer, root), b.out(spec.out_offset(peer, root)), spec.count);
    }
  }
  leave(b);
}

void build(ProgramBuilder& b) {
  switch (b.spec().op) {
    case Op::kAllReduce:
      return all_reduce(b);
    case Op::kReduceScatter:
      return reduce_scatter(b);
    case Op::kReduce:
      return reduce(b);
    case Op::kBroadcast:
    case Op::kGather:
    case Op::kScatter:
      return rooted(b);
    case Op::kBarrier:
      return b.barrier();
    default:
      return read_blocks(b);
  }
}

Status supports(const Spec& spec) {
  static_cast<void>(spec);
  return {};
}

Cost cost(const Spec& spec) {
  const double n = spec.ranks;
  const double block = static_cast<double>(spec.count) * spec.element_bytes;
  const bool staged = spec.access == Access::kStaged;
  double all = block * n;
  if (spec.op == Op::kAllGatherV || spec.op == Op::kAllToAllV) {
    all = static_cast<double>(out_elements(spec, 0)) * spec.element_bytes;
  }
  const double copies = staged ? static_cast<double>(in_elements(spec, 0)) * spec.element_bytes : 0;
  // Without peers in its memory a rank may leave when it is done: no second barrier.
  const double rounds = staged ? 1 : 2;
  switch (spec.op) {
    case Op::kAllReduce:
      return {2, staged ? block * (2 + 1 / n) : block, block};
    case Op::kReduceScatter:
      return {rounds, block + copies, all};
    case Op::kReduce:
      return {rounds, block / (staged ? 1 : n) + copies, staged ? all : block};
    case Op::kBroadcast:
    case Op::kScatter:
      return {rounds, block + copies, 0};
    case Op::kBarrier:
      return {1, 0, 0};
    case Op::kGather:
      return {rounds, staged ? block + all : block, 0};
    default:
      return {rounds, all + copies, 0};
  }
}

}  // namespace

Algorithm direct_algorithm() {
  return {"direct",
          "2 barriers; all_reduce: each rank folds 1/n of n inputs into n outputs",
          "Graham and Shipman, EuroPVM/MPI 2008; mapped buffers instead of staged ones",
          {Op::kAllReduce, Op::kAllGather, Op::kAllGatherV, Op::kReduceScatter, Op::kAllToAll,
           Op::kAllToAllV, Op::kBroadcast, Op::kReduce, Op::kGather, Op::kScatter, Op::kBarrier},
          supports,
          build,
          cost};
}

}  // namespace onrt::cc
