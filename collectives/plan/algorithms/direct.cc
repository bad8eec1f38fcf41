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

// In the order of ranks: the canonical order of a reduction.
std::vector<Operand> everyone(const ProgramBuilder& b, Buffer buffer, uint64_t offset) {
  std::vector<Operand> operands;
  for (int rank = 0; rank < b.ranks(); ++rank) {
    operands.push_back({rank, buffer, offset});
  }
  return operands;
}

// Where a peer's in can be read: itself, or a copy of it at the beginning of its scratch memory.
Buffer share_input(ProgramBuilder& b, uint64_t most_elements) {
  const Spec& spec = b.spec();
  const bool overwritten = spec.in_place && (spec.op == Op::kAllToAll || spec.op == Op::kAllToAllV);
  if (spec.access == Access::kDirect && !overwritten) {
    return Buffer::kIn;
  }
  b.set_alternate_scratch();
  b.set_scratch(most_elements);
  b.move(b.in(0), b.scratch(0), in_elements(spec, b.rank()));
  return Buffer::kScratch;
}

// The peers' memory is not touched any more.
void leave(ProgramBuilder& b, Buffer shared) {
  if (shared == Buffer::kIn) {
    b.barrier();
  }
}

void all_reduce(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  const Buffer shared = share_input(b, spec.count);
  const Block mine = rank_block(spec, b.rank());
  b.barrier();
  const auto inputs = everyone(b, shared, mine.in);
  if (shared == Buffer::kIn) {
    b.reduce(inputs, everyone(b, Buffer::kOut, mine.out), mine.count);
    b.barrier();
    return;
  }
  // Nobody else reads this part of our copy, so the result takes its place.
  b.reduce(inputs, std::vector<Operand>{b.scratch(mine.in)}, mine.count);
  b.barrier();
  for (int i = 0; i < b.ranks(); ++i) {
    const int peer = modulo(b.rank() + i, b.ranks());
    const Block block = rank_block(spec, peer);
    b.move({peer, Buffer::kScratch, block.in}, b.out(block.out), block.count);
  }
}

void reduce_scatter(ProgramBuilder& b) {
  const Buffer shared = share_input(b, in_elements(b.spec(), b.rank()));
  const Block mine = rank_block(b.spec(), b.rank());
  b.barrier();
  b.reduce(everyone(b, shared, mine.in), std::vector<Operand>{b.out(0)}, mine.count);
  leave(b, shared);
}

// Every rank folds its part into root's out; staged: root folds all of it, from the copies.
void reduce(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  const Operand result = {spec.root, Buffer::kOut, 0};
  const Buffer shared = share_input(b, spec.count);
  b.barrier();
  if (shared == Buffer::kScratch) {
    if (b.rank() == spec.root) {
      b.reduce(everyone(b, shared, 0), std::vector<Operand>{result}, spec.count);
    }
    return;
  }
  const Block mine = rank_block(spec, b.rank());
  b.reduce(everyone(b, shared, mine.in), std::vector<Operand>{{spec.root, Buffer::kOut, mine.out}},
           mine.count);
  b.barrier();
}

// Each rank reads what it needs: from every peer one block, beginning with its neighbour's.
void read_blocks(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  uint64_t most = 0;
  for (int rank = 0; rank < b.ranks(); ++rank) {
    most = std::max(most, in_elements(spec, rank));
  }
  const Buffer shared = share_input(b, most);
  b.barrier();
  for (int i = 0; i < b.ranks(); ++i) {
    const int peer = modulo(b.rank() + i, b.ranks());
    uint64_t from = 0;
    uint64_t count = spec.count;
    if (spec.op == Op::kAllToAll || spec.op == Op::kAllToAllV) {
      from = spec.in_offset(peer, b.rank());
    } else if (spec.op == Op::kAllGatherV) {
      from = spec.in_offset(peer, 0);
    }
    if (spec.op == Op::kAllGatherV) {
      count = spec.counts[static_cast<size_t>(peer)];
    } else if (spec.op == Op::kAllToAllV) {
      count = spec.counts[static_cast<size_t>(peer * b.ranks() + b.rank())];
    }
    const Buffer where =
        peer == b.rank() && shared == Buffer::kScratch && !spec.in_place ? Buffer::kIn : shared;
    b.move({peer, where, from}, b.out(spec.out_offset(peer, b.rank())), count);
  }
  leave(b, shared);
}

// broadcast, scatter: from root's in; gather: into root's out.
void rooted(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  const int root = spec.root;
  const bool gather = spec.op == Op::kGather;
  const Block mine = rank_block(spec, b.rank());
  const Buffer shared = share_input(b, gather ? spec.count : in_elements(spec, root));
  b.barrier();
  if (!gather) {
    const uint64_t from = spec.op == Op::kScatter ? mine.in : 0;
    b.move({root, b.rank() == root ? Buffer::kIn : shared, from}, b.out(0), spec.count);
  } else if (shared == Buffer::kIn) {
    b.move(b.in(0), {root, Buffer::kOut, mine.out}, spec.count);
  } else if (b.rank() == root) {
    for (int peer = 0; peer < b.ranks(); ++peer) {
      b.move({peer, peer == root ? Buffer::kIn : shared, 0}, b.out(spec.out_offset(peer, root)),
             spec.count);
    }
  }
  leave(b, shared);
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
  switch (spec.op) {
    case Op::kAllReduce:
      return {2, staged ? block * (2 + 1 / n) : block, block};
    case Op::kReduceScatter:
      return {2, block + copies, all};
    case Op::kReduce:
      return {2, block / (staged ? 1 : n) + copies, staged ? all : block};
    case Op::kBroadcast:
    case Op::kScatter:
      return {2, block + copies, 0};
    case Op::kBarrier:
      return {1, 0, 0};
    case Op::kGather:
      return {2, staged ? block + all : block, 0};
    default:
      return {2, all + copies, 0};
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
