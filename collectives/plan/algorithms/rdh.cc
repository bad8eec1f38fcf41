// SPDX-License-Identifier: Apache-2.0
// rdh: recursive halving for reduce_scatter, recursive doubling for all_gather; all_reduce is both.
//
// In step k of halving a rank exchanges half of what it still holds with the rank whose number
// differs in one bit; after log n steps each holds one reduced block; doubling goes back. 2 log n
// steps, 2(n - 1)/n of the message sent. When n is no power of two, all_reduce folds the remainder
// first: rank 2i gives its input to rank 2i + 1 and gets the result from it last.
//
// Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Thakur,
// Rabenseifner and Gropp, IJHPCA 19 (2005) 49-66.
#include <bit>

#include "collectives/plan/algorithm.h"
#include "collectives/plan/algorithms/blocks.h"

namespace onrt::cc {
namespace {

struct Piece {
  uint64_t in = 0;
  uint64_t out = 0;
  uint64_t at = 0;  // among all blocks, packed: offset in scratch areas
  uint64_t count = 0;
};

class Halving {
 public:
  explicit Halving(ProgramBuilder& b)
      : b_(b),
        spec_(b.spec()),
        n_(b.ranks()),
        p_(static_cast<int>(std::bit_floor(static_cast<unsigned>(n_)))),
        rest_(n_ - p_) {
    uint64_t at = 0;
    for (int i = 0; i < p_; ++i) {
      const Block block =
          spec_.op == Op::kAllReduce ? message_part(spec_, i, p_) : rank_block(spec_, i);
      pieces_.push_back({block.in, block.out, at, block.count});
      at += block.count;
    }
    total_ = at;
    const bool folded_out = b.rank() < 2 * rest_ && b.rank() % 2 == 0;
    number_ = folded_out ? -1 : number_of(b.rank());
  }

  void build() {
    b_.set_alternate_scratch();
    const bool reduces = op_reduces(spec_.op);
    const bool gathers = spec_.op != Op::kReduceScatter;
    // Scratch: a folded input or first raw half, then what arrives staged at its packed place.
    raw_ = reduces && n_ > 1 ? (rest_ > 0 ? total_ : 0) + begin_of(p_ / 2) : 0;
    b_.set_scratch(raw_ + (gathers && staged() && n_ > 1 ? total_ : 0));
    b_.set_partial(reduces && n_ > 1 ? total_ + receive_at(rounds()) : 0);
    if (n_ == 1) {
      return alone();
    }
    if (number_ < 0) {
      return outsider();
    }
    if (b_.rank() < 2 * rest_) {
      take_in();
    }
    if (reduces) {
      halve();
    }
    if (gathers) {
      if (!reduces) {
        own_block();
      }
      double_up();
    }
    if (b_.rank() < 2 * rest_) {
      give_back();
    }
  }

 private:
  bool staged() const { return spec_.access == Access::kStaged; }
  int rounds() const { return std::countr_zero(static_cast<unsigned>(p_)); }
  int number_of(int rank) const { return rank < 2 * rest_ ? rank / 2 : rank - rest_; }
  int rank_of(int number) const { return number < rest_ ? 2 * number + 1 : number + rest_; }
  bool was_folded(int number) const { return number < rest_; }

  // Blocks [first, last), joined where they are neighbours everywhere.
  std::vector<Piece> runs(int first, int last) const {
    std::vector<Piece> joined;
    for (int i = first; i < last; ++i) {
      const Piece& next = pieces_[static_cast<size_t>(i)];
      if (next.count == 0) {
        continue;
      }
      if (!joined.empty() && joined.back().in + joined.back().count == next.in &&
          joined.back().out + joined.back().count == next.out) {
        joined.back().count += next.count;
      } else {
        joined.push_back(next);
      }
    }
    return joined;
  }

  uint64_t begin_of(int index) const {
    return index == p_ ? total_ : pieces_[static_cast<size_t>(index)].at;
  }

  // Where in partial (behind the sums) step k's half arrives; blocks get no larger, so the first
  // ones bound all.
  uint64_t receive_at(int k) const {
    uint64_t offset = 0;
    for (int i = 0; i < k; ++i) {
      offset += begin_of(p_ >> (i + 1));
    }
    return offset;
  }

  void alone() {
    for (const Piece& piece : runs(0, 1)) {
      if (op_reduces(spec_.op)) {
        b_.reduce({b_.in(piece.in)}, b_.out(piece.out), piece.count);
      } else {
        b_.move(b_.in(piece.in), b_.out(piece.out), piece.count);
      }
    }
  }

  // The rank whose input another one brings in.
  void outsider() {
    const int partner = b_.rank() + 1;
    b_.move(b_.in(0), {partner, Buffer::kScratch, 0}, total_);
    b_.signal(partner);
    b_.wait(partner);
    if (staged()) {
      b_.move(b_.scratch(raw_), b_.out(0), total_);
    }
  }

  void take_in() {
    const int partner = b_.rank() - 1;
    b_.wait(partner);
    b_.reduce({b_.scratch(0), b_.in(0)}, b_.partial(0), total_);
  }

  void give_back() {
    const int partner = b_.rank() - 1;
    b_.move(b_.out(0),
            staged() ? Operand{partner, Buffer::kScratch, raw_} : Operand{partner, Buffer::kOut, 0},
            total_);
    b_.signal(partner);
  }

  void halve() {
    int first = 0;
    int last = p_;
    for (int k = 0; k < rounds(); ++k) {
      const int distance = p_ >> (k + 1);
      const int middle = first + distance;
      const bool low = (number_ & distance) == 0;
      const int partner = number_ ^ distance;
      send_half(k, partner, low ? middle : first, low ? last : middle);
      first = low ? first : first + distance;
      last = first + distance;
      b_.wait(rank_of(partner));
      take_half(k, partner, first, last);
    }
  }

  // In the first step those whose input was not folded send elements, not sums.
  bool sends_raw(int k, int number) const { return k == 0 && !was_folded(number); }

  void send_half(int k, int partner, int first, int last) {
    const uint64_t base = begin_of(first);
    for (const Piece& piece : runs(first, last)) {
      if (sends_raw(k, number_)) {
        b_.move(b_.in(piece.in),
                {rank_of(partner), Buffer::kScratch, raw_place(partner, piece, base)}, piece.count);
      } else {
        b_.move(b_.partial(piece.at),
                {rank_of(partner), Buffer::kPartial, total_ + receive_at(k) + piece.at - base},
                piece.count);
      }
    }
    b_.signal(rank_of(partner));
  }

  // Behind the input that the receiver folds in.
  uint64_t raw_place(int number, const Piece& piece, uint64_t base) const {
    return (was_folded(number) ? total_ : 0) + piece.at - base;
  }

  void take_half(int k, int partner, int first, int last) {
    const uint64_t base = begin_of(first);
    for (const Piece& piece : runs(first, last)) {
      const Operand own = sends_raw(k, number_) ? b_.in(piece.in) : b_.partial(piece.at);
      const Operand theirs = sends_raw(k, partner)
                                 ? b_.scratch(raw_place(number_, piece, base))
                                 : b_.partial(total_ + receive_at(k) + piece.at - base);
      const Operand sum = k == rounds() - 1 ? b_.out(piece.out) : b_.partial(piece.at);
      if (number_ < partner) {
        b_.reduce({own, theirs}, sum, piece.count);
      } else {
        b_.reduce({theirs, own}, sum, piece.count);
      }
    }
  }

  void own_block() {
    const Piece& piece = pieces_[static_cast<size_t>(number_)];
    b_.move(b_.in(piece.in), b_.out(piece.out), piece.count);
    for (int k = 0; k < rounds() && !staged(); ++k) {
      b_.signal(number_ ^ (1 << k));  // our out may be written
    }
    for (int k = 0; k < rounds() && !staged(); ++k) {
      b_.wait(number_ ^ (1 << k));
    }
  }

  void double_up() {
    for (int distance = 1; distance < p_; distance *= 2) {
      const int partner = number_ ^ distance;
      const int first = number_ & ~(distance - 1);
      const int theirs = partner & ~(distance - 1);
      for (const Piece& piece : runs(first, first + distance)) {
        b_.move(b_.out(piece.out),
                staged() ? Operand{rank_of(partner), Buffer::kScratch, raw_ + piece.at}
                         : Operand{rank_of(partner), Buffer::kOut, piece.out},
                piece.count);
      }
      b_.signal(rank_of(partner));
      b_.wait(rank_of(partner));
      for (const Piece& piece : runs(theirs, staged() ? theirs + distance : theirs)) {
        b_.move(b_.scratch(raw_ + piece.at), b_.out(piece.out), piece.count);
      }
    }
  }

  ProgramBuilder& b_;
  const Spec& spec_;
  int n_;
  int p_;     // the largest power of two
  int rest_;  // ranks beyond it
  int number_ = 0;
  std::vector<Piece> pieces_;
  uint64_t total_ = 0;
  uint64_t raw_ = 0;
};

void build(ProgramBuilder& b) { Halving(b).build(); }

Status supports(const Spec& spec) {
  if (spec.op != Op::kAllReduce && !std::has_single_bit(static_cast<unsigned>(spec.ranks))) {
    return {NRT_INVALID, std::string(op_name(spec.op)) + " needs a power of two of ranks, found " +
                             std::to_string(spec.ranks)};
  }
  if (spec.deterministic && op_reduces(spec.op) && spec.ranks > 2) {
    return {NRT_INVALID,
            "halves are summed pair by pair; deterministic reductions add in the order of ranks: "
            "take direct, mesh or single-step-mesh"};
  }
  return {};
}

Cost cost(const Spec& spec) {
  const double n = spec.ranks;
  const double p = std::bit_floor(static_cast<unsigned>(spec.ranks));
  const double steps = std::countr_zero(static_cast<unsigned>(p));
  const double all =
      static_cast<double>(spec.count) * spec.element_bytes * (spec.op == Op::kAllReduce ? 1 : n);
  const double turn = all * (p - 1) / p;
  const double wide = static_cast<double>(spec.partial_bytes) / spec.element_bytes;
  const bool reduces = op_reduces(spec.op);
  const bool gathers = spec.op != Op::kReduceScatter;
  const double gather = turn * (spec.access == Access::kStaged ? 2 : 1);
  const double folds = n > p ? 1 : 0;
  Cost cost;
  cost.rounds = steps * ((reduces ? 1 : 0) + (gathers ? 1 : 0)) + 2 * folds;
  cost.moved_bytes =
      (reduces ? 2 * turn * wide : all / n) + (gathers ? gather : 0) + folds * all * (2 + wide);
  cost.reduced_bytes = reduces ? turn * 2 * wide + folds * 2 * all : 0;
  return cost;
}

}  // namespace

Algorithm rdh_algorithm() {
  return {"rdh",
          "log n steps a phase, (n-1)/n of the message sent a phase; all_reduce folds a remainder",
          "Rabenseifner, ICCS 2004; Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005)",
          {Op::kAllReduce, Op::kReduceScatter, Op::kAllGather},
          supports,
          build,
          cost};
}

}  // namespace onrt::cc
