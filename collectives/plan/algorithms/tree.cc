// SPDX-License-Identifier: Apache-2.0
// tree: a binomial tree with the root on top; log n steps for any n.
//
// broadcast and scatter go down, reduce and gather go up, all_reduce goes up and down again. A rank
// with place v (its distance from root) has the children v + 1, v + 2, v + 4, ...; the subtree of
// the k-th covers 2^k places. Slices of a message follow each other down and up.
//
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005) 49-66, 4.2 and 4.5 (minimum spanning
// tree); binomial trees in Johnsson and Ho, IEEE Trans. Computers 38 (1989) 1249-1268.
#include <bit>

#include "collectives/plan/algorithm.h"
#include "collectives/plan/algorithms/blocks.h"

namespace onrt::cc {
namespace {

class Tree {
 public:
  explicit Tree(ProgramBuilder& b)
      : b_(b),
        spec_(b.spec()),
        n_(b.ranks()),
        root_(op_has_root(spec_.op) ? spec_.root : 0),
        place_(modulo(b.rank() - root_, n_)) {
    const int limit = place_ == 0 ? n_ : place_ & -place_;
    for (int distance = 1; distance < limit && place_ + distance < n_; distance *= 2) {
      children_.push_back(place_ + distance);
    }
  }

  void build() {
    switch (spec_.op) {
      case Op::kScatter:
        return scatter();
      case Op::kGather:
        return gather();
      case Op::kBroadcast:
        b_.set_scratch(stages_down());
        return down(b_.in(0), 0);
      case Op::kReduce:
        b_.set_scratch(children_.size() * spec_.count);
        return up();
      default:
        b_.set_scratch(children_.size() * spec_.count + stages_down());
        up();
        return down(b_.out(0), children_.size() * spec_.count);
    }
  }

 private:
  bool is_root() const { return place_ == 0; }
  int rank_at(int place) const { return modulo(place + root_, n_); }
  int parent() const { return rank_at(place_ & (place_ - 1)); }
  // Places in the subtree of `place`.
  int subtree(int place) const { return place == 0 ? n_ : std::min(place & -place, n_ - place); }
  size_t children_of(int place) const {
    return static_cast<size_t>(std::bit_width(static_cast<unsigned>(subtree(place) - 1)));
  }
  // Which of its parent's children a place is.
  static uint64_t index_of(int place) {
    return static_cast<uint64_t>(std::countr_zero(static_cast<unsigned>(place)));
  }
  bool staged() const { return spec_.access == Access::kStaged; }
  uint64_t stages_down() const { return staged() && !is_root() ? spec_.count : 0; }
  std::pair<uint64_t, uint64_t> slice(int k) const {
    return part_of(spec_.count, static_cast<uint64_t>(spec_.slices), static_cast<uint64_t>(k),
                   line_elements(spec_));
  }

  // Children may put to us from here on; we may put to our parent.
  void greet_children() {
    for (const int child : children_) {
      b_.signal(rank_at(child));
    }
  }

  // From root's `top` to all outs. `stage`: offset of ours in scratch.
  void down(Operand top, uint64_t stage) {
    if (!is_root()) {
      b_.signal(parent());  // our memory may be written
    }
    for (const int child : children_) {
      b_.wait(rank_at(child));
    }
    for (int k = 0; k < spec_.slices; ++k) {
      const auto [first, count] = slice(k);
      Operand from = is_root() ? top : b_.out(0);
      from.offset += first;
      if (!is_root()) {
        b_.wait(parent());
        from = staged() ? b_.scratch(stage + first) : from;
      }
      for (const int child : children_) {
        b_.move(from, down_target(child, first), count);
        b_.signal(rank_at(child));
      }
      b_.move(from, b_.out(first), count);
    }
  }

  Operand down_target(int child, uint64_t first) const {
    const uint64_t stage =
        spec_.op == Op::kAllReduce ? children_of(child) * spec_.count : uint64_t{0};
    return staged() ? Operand{rank_at(child), Buffer::kScratch, stage + first}
                    : Operand{rank_at(child), Buffer::kOut, first};
  }

  // Slot i of scratch or partial: what child i gives; scratch if it is one element's worth.
  void up() {
    const uint64_t sums = children_.size() * spec_.count;
    b_.set_partial(children_.empty() ? 0 : sums + (is_root() ? 0 : spec_.count));
    greet_children();
    if (!is_root()) {
      b_.wait(parent());
    }
    for (int k = 0; k < spec_.slices; ++k) {
      const auto [first, count] = slice(k);
      std::vector<Operand> inputs = {b_.in(first)};
      for (const int child : children_) {
        b_.wait(rank_at(child));
        const uint64_t at = index_of(child) * spec_.count + first;
        inputs.push_back(subtree(child) == 1 ? b_.scratch(at) : b_.partial(at));
      }
      if (is_root()) {
        b_.reduce(inputs, std::vector<Operand>{b_.out(first)}, count);
        continue;
      }
      Operand sum = b_.in(first);
      if (!children_.empty()) {
        sum = b_.partial(sums + first);
        b_.reduce(inputs, std::vector<Operand>{sum}, count);
      }
      b_.move(sum,
              {parent(), children_.empty() ? Buffer::kScratch : Buffer::kPartial,
               index_of(place_) * spec_.count + first},
              count);
      b_.signal(parent());
    }
  }

  // Scratch holds the blocks of our subtree in the order of places; ours first.
  void scatter() {
    const bool holds = !is_root();
    b_.set_scratch(holds ? static_cast<uint64_t>(subtree(place_)) * spec_.count : 0);
    if (holds) {
      b_.signal(parent());
      b_.wait(parent());
    }
    for (size_t i = children_.size(); i-- > 0;) {
      const int child = children_[i];
      b_.wait(rank_at(child));
      if (holds) {
        b_.move(b_.scratch(static_cast<uint64_t>(child - place_) * spec_.count),
                {rank_at(child), Buffer::kScratch, 0},
                static_cast<uint64_t>(subtree(child)) * spec_.count);
      } else {
        for (int j = 0; j < subtree(child); ++j) {
          b_.move(b_.in(spec_.in_offset(0, rank_at(child + j))),
                  {rank_at(child), Buffer::kScratch, static_cast<uint64_t>(j) * spec_.count},
                  spec_.count);
        }
      }
      b_.signal(rank_at(child));
    }
    b_.move(holds ? b_.scratch(0) : b_.in(spec_.in_offset(0, b_.rank())), b_.out(0), spec_.count);
  }

  void gather() {
    b_.set_scratch(static_cast<uint64_t>(subtree(place_)) * spec_.count);
    greet_children();
    if (!is_root() && !children_.empty()) {
      b_.move(b_.in(0), b_.scratch(0), spec_.count);
    }
    for (const int child : children_) {
      b_.wait(rank_at(child));
    }
    if (!is_root()) {
      b_.wait(parent());
      const int parent_place = place_ & (place_ - 1);
      b_.move(
          children_.empty() ? b_.in(0) : b_.scratch(0),
          {parent(), Buffer::kScratch, static_cast<uint64_t>(place_ - parent_place) * spec_.count},
          static_cast<uint64_t>(subtree(place_)) * spec_.count);
      b_.signal(parent());
      return;
    }
    for (int j = 0; j < n_; ++j) {
      b_.move(j == 0 ? b_.in(0) : b_.scratch(static_cast<uint64_t>(j) * spec_.count),
              b_.out(spec_.out_offset(rank_at(j), root_)), spec_.count);
    }
  }

  ProgramBuilder& b_;
  const Spec& spec_;
  int n_;
  int root_;
  int place_;
  std::vector<int> children_;  // places
};

void build(ProgramBuilder& b) { Tree(b).build(); }

Status supports(const Spec& spec) {
  if (spec.deterministic && op_reduces(spec.op) && spec.ranks > 2) {
    return {NRT_INVALID,
            "subtrees are summed apart; deterministic reductions add in the order of ranks: take "
            "direct, mesh or single-step-mesh"};
  }
  if (spec.deterministic && op_reduces(spec.op) && spec.op == Op::kReduce && spec.root != 0) {
    return {NRT_INVALID, "the root's part comes first; in deterministic mode root must be 0"};
  }
  return {};
}

Cost cost(const Spec& spec) {
  const double n = spec.ranks;
  const double levels = std::bit_width(static_cast<unsigned>(spec.ranks - 1));
  const double block = static_cast<double>(spec.count) * spec.element_bytes;
  const double wide = static_cast<double>(spec.partial_bytes) / spec.element_bytes;
  // Slices overlap the levels.
  const double passes = (levels + spec.slices - 1) / spec.slices;
  const double stage = spec.access == Access::kStaged ? 2 : 1;
  const Cost up = {levels + spec.slices, block * wide * 2 * passes, block * wide * (levels + 1)};
  const Cost down = {levels + spec.slices, block * stage * levels, 0};
  switch (spec.op) {
    case Op::kBroadcast:
      return down;
    case Op::kReduce:
      return up;
    case Op::kAllReduce:
      return {up.rounds + down.rounds, up.moved_bytes + down.moved_bytes, up.reduced_bytes};
    default:
      return {levels + 1, block * n * 2, 0};
  }
}

}  // namespace

Algorithm tree_algorithm() {
  return {"tree",
          "log n steps, the message sent once a level",
          "Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005); Johnsson and Ho, IEEE TC 38 (1989)",
          {Op::kBroadcast, Op::kReduce, Op::kAllReduce, Op::kGather, Op::kScatter},
          supports,
          build,
          cost};
}

}  // namespace onrt::cc
