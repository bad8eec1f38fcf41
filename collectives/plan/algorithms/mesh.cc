// SPDX-License-Identifier: Apache-2.0
// mesh: everybody sends to everybody at once.
//
// reduce_scatter: every rank gets its block of all inputs and folds them in the order of ranks;
// all_gather: every rank gives its block to all. all_reduce is both. One step a phase; every rank
// sends (n - 1)/n of the message a phase, in n - 1 parts.
//
// Source: AWS Neuron documentation, "Neuron collectives: intra-node algorithms" (Mesh); the
// direct-exchange schedules of Bruck et al., IEEE TPDS 8 (1997) 1143-1156.
#include "collectives/plan/algorithm.h"
#include "collectives/plan/algorithms/blocks.h"
#include "collectives/plan/algorithms/exchange.h"

namespace onrt::cc {
namespace {

// [0, n) slots of scratch for what arrives to be reduced, then n for blocks that arrive staged.
class Mesh {
 public:
  explicit Mesh(ProgramBuilder& b)
      : b_(b),
        spec_(b.spec()),
        n_(b.ranks()),
        blocks_(rank_blocks(spec_)),
        slot_(largest(blocks_)) {}

  void build() {
    const bool reduces = op_reduces(spec_.op);
    const bool gathers = spec_.op != Op::kReduceScatter;
    b_.set_alternate_scratch();
    b_.set_scratch(static_cast<uint64_t>(n_) * slot_ *
                   ((reduces ? 1 : 0) + (gathers && staged() ? 1 : 0)));
    for (int channel = 0; channel < spec_.channels; ++channel) {
      b_.use_channel(channel);
      if (reduces) {
        scatter();
      }
      if (gathers) {
        gather();
      }
    }
  }

 private:
  bool staged() const { return spec_.access == Access::kStaged; }
  const Block& block(int rank) const { return blocks_[static_cast<size_t>(rank)]; }
  std::pair<uint64_t, uint64_t> part(int rank) const {
    return part_of(block(rank).count, static_cast<uint64_t>(spec_.channels),
                   static_cast<uint64_t>(b_.channel()), line_elements(spec_));
  }

  void scatter() {
    for (int i = 1; i < n_; ++i) {
      const int peer = peer_at(b_, i);
      const auto [first, count] = part(peer);
      b_.move(b_.in(block(peer).in + first),
              {peer, Buffer::kScratch, static_cast<uint64_t>(b_.rank()) * slot_ + first}, count);
      b_.signal(peer);
    }
    wait_all(b_);
    const auto [first, count] = part(b_.rank());
    std::vector<Operand> inputs;
    for (int rank = 0; rank < n_; ++rank) {
      inputs.push_back(rank == b_.rank() ? b_.in(block(rank).in + first)
                                         : b_.scratch(static_cast<uint64_t>(rank) * slot_ + first));
    }
    b_.reduce(inputs, std::vector<Operand>{b_.out(block(b_.rank()).out + first)}, count);
  }

  uint64_t staged_slot(int rank) const {
    return static_cast<uint64_t>(rank + (op_reduces(spec_.op) ? n_ : 0)) * slot_;
  }

  void gather() {
    const Block& own = block(b_.rank());
    const auto [first, count] = part(b_.rank());
    Operand from = b_.out(own.out + first);
    if (!op_reduces(spec_.op)) {
      from = b_.in(own.in + first);
      b_.move(from, b_.out(own.out + first), count);
      if (!staged()) {
        signal_all(b_);  // our out may be written
        wait_all(b_);
      }
    }
    std::vector<Operand> targets;
    for (int i = 1; i < n_; ++i) {
      const int peer = peer_at(b_, i);
      targets.push_back(staged() ? Operand{peer, Buffer::kScratch, staged_slot(b_.rank()) + first}
                                 : Operand{peer, Buffer::kOut, own.out + first});
    }
    b_.move(from, targets, count);
    signal_all(b_);
    wait_all(b_);
    for (int i = 1; i < n_ && staged(); ++i) {
      const int peer = peer_at(b_, i);
      const auto [begin, length] = part(peer);
      b_.move(b_.scratch(staged_slot(peer) + begin), b_.out(block(peer).out + begin), length);
    }
  }

  ProgramBuilder& b_;
  const Spec& spec_;
  int n_;
  std::vector<Block> blocks_;
  uint64_t slot_;
};

void build(ProgramBuilder& b) { Mesh(b).build(); }

Status supports(const Spec& spec) {
  static_cast<void>(spec);
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
  const double turn = all * (n - 1) / n;
  const bool staged = spec.access == Access::kStaged;
  const double gather = turn * (staged ? 2 : 1);
  switch (spec.op) {
    case Op::kAllReduce:
      return {2 * (n - 1) / 2 + 1, turn + all / n + gather, all};
    case Op::kReduceScatter:
      return {(n - 1) / 2 + 1, turn + all / n, all};
    default:
      return {((n - 1) / 2 + 1) * (staged ? 1 : 2), all / n + gather, 0};
  }
}

}  // namespace

Algorithm mesh_algorithm() {
  return {"mesh",
          "1 step a phase to all peers, (n-1)/n of the message sent a phase",
          "AWS Neuron documentation, intra-node collectives; Bruck et al., IEEE TPDS 8 (1997)",
          {Op::kAllReduce, Op::kReduceScatter, Op::kAllGather, Op::kAllGatherV},
          supports,
          build,
          cost};
}

}  // namespace onrt::cc
