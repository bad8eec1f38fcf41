// SPDX-License-Identifier: Apache-2.0
// ring: everybody sends to the next rank and receives from the previous one.
//
// reduce_scatter: n - 1 steps of 1/n of the message; block b starts at rank b + 1 and is complete
// at rank b. all_gather: the complete blocks go round once more. all_reduce is both. Bytes sent by
// each rank: (n - 1)/n of the message a phase, which is the least possible; 2(n - 1) steps.
// Channels carry parts of every block that never meet; slices of a block let a rank reduce one
// while the next one arrives.
//
// Partial sums travel in the accumulator's type, so that a result is rounded once.
//
// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", JPDC 69 (2009) 117-124.
#include "collectives/plan/algorithm.h"
#include "collectives/plan/algorithms/blocks.h"

namespace onrt::cc {
namespace {

class Ring {
 public:
  explicit Ring(ProgramBuilder& b)
      : b_(b),
        spec_(b.spec()),
        n_(b.ranks()),
        next_(modulo(b.rank() + 1, n_)),
        previous_(modulo(b.rank() - 1, n_)),
        blocks_(rank_blocks(spec_)),
        slot_(largest(blocks_)) {}

  void build() {
    b_.set_alternate_scratch();
    const bool reduces = op_reduces(spec_.op);
    const bool gathers = spec_.op != Op::kReduceScatter;
    const bool staged = spec_.access == Access::kStaged;
    // Slot s of partial: what arrives at step s, then the sum. Slots of scratch: the first thing to
    // arrive, which is no sum yet, then the blocks that come round staged.
    const uint64_t turns = static_cast<uint64_t>(n_ - 1);
    b_.set_partial(reduces && n_ > 2 ? turns * slot_ : 0);
    b_.set_scratch(n_ == 1 ? 0 : ((reduces ? 1 : 0) + (gathers && staged ? turns : 0)) * slot_);
    for (int channel = 0; channel < spec_.channels; ++channel) {
      b_.use_channel(channel);
      if (n_ == 1) {
        alone();
        continue;
      }
      if (reduces) {
        scatter();
      }
      if (gathers) {
        gather();
      }
    }
  }

 private:
  const Block& block(int index) const { return blocks_[static_cast<size_t>(modulo(index, n_))]; }

  void alone() {
    for (int k = 0; k < spec_.slices; ++k) {
      const auto [first, count] = slice_of(spec_, block(0), b_.channel(), k);
      const Operand from = b_.in(block(0).in + first);
      const Operand to = b_.out(block(0).out + first);
      if (op_reduces(spec_.op)) {
        b_.reduce({from}, to, count);
      } else {
        b_.move(from, to, count);
      }
    }
  }

  // At step s, block rank - 1 - s leaves and block rank - 2 - s arrives and grows by our part.
  void scatter() {
    for (int k = 0; k < spec_.slices; ++k) {
      const Block& leaving = block(b_.rank() - 1);
      const auto [first, count] = slice_of(spec_, leaving, b_.channel(), k);
      b_.move(b_.in(leaving.in + first), {next_, Buffer::kScratch, first}, count);
      b_.signal(next_);
    }
    for (int s = 0; s < n_ - 1; ++s) {
      for (int k = 0; k < spec_.slices; ++k) {
        scatter_slice(s, k);
      }
    }
  }

  void scatter_slice(int s, int k) {
    const Block& arriving = block(b_.rank() - 2 - s);
    const auto [first, count] = slice_of(spec_, arriving, b_.channel(), k);
    const uint64_t slot = static_cast<uint64_t>(s) * slot_;
    const Operand before = s == 0 ? b_.scratch(first) : b_.partial(slot + first);
    const Operand sum = b_.partial(slot + first);
    const Operand own = b_.in(arriving.in + first);
    b_.wait(previous_);
    if (s == n_ - 2) {
      // Two ranks: in the order of ranks, for the deterministic mode.
      const bool own_first = n_ == 2 && b_.rank() == 0;
      const std::vector<Operand> from = {own_first ? own : before, own_first ? before : own};
      b_.reduce(from, std::vector<Operand>{b_.out(arriving.out + first)}, count);
      return;
    }
    b_.reduce({before, own}, sum, count);
    b_.move(sum, {next_, Buffer::kPartial, sum.offset + slot_}, count);
    b_.signal(next_);
  }

  // At step s, block rank - s leaves and block rank - 1 - s arrives.
  void gather() {
    const bool reduced = op_reduces(spec_.op);
    const bool staged = spec_.access == Access::kStaged;
    const Block& own = block(b_.rank());
    if (!reduced && !staged) {
      b_.signal(previous_);  // our out may be written
      b_.wait(next_);
    }
    for (int k = 0; k < spec_.slices; ++k) {
      const auto [first, count] = slice_of(spec_, own, b_.channel(), k);
      if (!reduced) {
        b_.move(b_.in(own.in + first), b_.out(own.out + first), count);
      }
      pass_on(b_.out(own.out + first), own, 0, first, count);
    }
    for (int s = 0; s < n_ - 1; ++s) {
      for (int k = 0; k < spec_.slices; ++k) {
        const Block& arriving = block(b_.rank() - 1 - s);
        const auto [first, count] = slice_of(spec_, arriving, b_.channel(), k);
        b_.wait(previous_);
        if (staged) {
          b_.move(b_.scratch(gather_slot(s) + first), b_.out(arriving.out + first), count);
        }
        if (s < n_ - 2) {
          pass_on(b_.out(arriving.out + first), arriving, s + 1, first, count);
        }
      }
    }
  }

  uint64_t gather_slot(int s) const {
    return static_cast<uint64_t>(s + (op_reduces(spec_.op) ? 1 : 0)) * slot_;
  }

  void pass_on(Operand from, const Block& leaving, int s, uint64_t first, uint64_t count) {
    const bool staged = spec_.access == Access::kStaged;
    b_.move(from,
            staged ? Operand{next_, Buffer::kScratch, gather_slot(s) + first}
                   : Operand{next_, Buffer::kOut, leaving.out + first},
            count);
    b_.signal(next_);
  }

  ProgramBuilder& b_;
  const Spec& spec_;
  int n_;
  int next_;
  int previous_;
  std::vector<Block> blocks_;
  uint64_t slot_;
};

void build(ProgramBuilder& b) { Ring(b).build(); }

Status supports(const Spec& spec) {
  if (spec.deterministic && op_reduces(spec.op) && spec.ranks > 2) {
    return {NRT_INVALID,
            "each block's sum begins at another rank; deterministic reductions add in the order of "
            "ranks: take direct, mesh or single-step-mesh"};
  }
  return {};
}

Cost cost(const Spec& spec) {
  const double n = spec.ranks;
  double all = static_cast<double>(spec.count) * spec.element_bytes;
  if (spec.op == Op::kAllGatherV) {
    all = static_cast<double>(out_elements(spec, 0)) * spec.element_bytes;
  } else if (spec.op != Op::kAllReduce) {
    all *= n;
  }
  const double phases = spec.op == Op::kAllReduce ? 2 : 1;
  const double turn = all * (n - 1) / n;
  const double wide = static_cast<double>(spec.partial_bytes) / spec.element_bytes;
  const bool reduces = op_reduces(spec.op);
  const double staged = spec.access == Access::kStaged && spec.op != Op::kReduceScatter ? 2 : 1;
  Cost cost;
  cost.rounds = phases * (n - 1) * spec.slices;
  cost.moved_bytes =
      (reduces ? turn * 2 * wide : all / n) + (phases == 2 || !reduces ? turn * staged : 0);
  cost.reduced_bytes = reduces ? turn * (1 + wide) : 0;
  return cost;
}

}  // namespace

Algorithm ring_algorithm() {
  return {"ring",
          "n-1 steps a phase, (n-1)/n of the message sent a phase",
          "Patarasuk and Yuan, JPDC 69 (2009)",
          {Op::kAllReduce, Op::kReduceScatter, Op::kAllGather, Op::kAllGatherV},
          supports,
          build,
          cost};
}

}  // namespace onrt::cc
