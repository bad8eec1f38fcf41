// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/check_result.h"

#include <algorithm>

#include "collectives/plan/check_shape.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

void add_block(std::vector<Expected>& ranges, uint64_t first, uint64_t count,
               std::optional<int> source, uint64_t origin) {
  if (count > 0) {
    ranges.push_back({first, count, source, origin});
  }
}

// Block `from` of a buffer of blocks.
void add_source(std::vector<Expected>& ranges, const Spec& spec, int from, int rank) {
  uint64_t count = spec.count;
  uint64_t origin = 0;
  if (spec.op == Op::kAllGatherV) {
    count = spec.counts[static_cast<size_t>(from)];
    origin = spec.in_offset(from, 0);
  } else if (spec.op == Op::kAllToAllV) {
    count = spec.counts[static_cast<size_t>(from) * static_cast<size_t>(spec.ranks) +
                        static_cast<size_t>(rank)];
    origin = spec.in_offset(from, rank);
  } else if (spec.op == Op::kAllToAll) {
    origin = spec.in_offset(from, rank);
  }
  add_block(ranges, spec.out_offset(from, rank), count, from, origin);
}

class ResultCheck {
 public:
  ResultCheck(const Schedule& schedule, std::vector<std::vector<MemoryMap>>& memory,
              const ValueTable& values)
      : spec_(schedule.spec), memory_(memory), values_(values) {}

  std::vector<Finding> run() {
    for (rank_ = 0; rank_ < spec_.ranks; ++rank_) {
      check_rank();
    }
    if (spec_.op == Op::kAllReduce) {
      check_equal_bits();
    }
    return std::move(findings_);
  }

 private:
  void find(Mistake mistake, std::string text) {
    if (findings_.size() < kMostFindings) {
      findings_.push_back({mistake, rank_, -1, -1, std::move(text)});
    }
  }

  MemoryMap& region(int rank, Region region) {
    return memory_[static_cast<size_t>(rank)][static_cast<size_t>(region)];
  }

  void check_rank() {
    const Placement place = placement(spec_, rank_);
    MemoryMap& out = region(rank_, place.shared ? Region::kUser : Region::kOut);
    uint64_t checked = 0;  // in the region
    for (const Expected& expected : expected_result(spec_, rank_)) {
      check_untouched(out, checked, expected.first + place.out_base);
      check_range(out, place.out_base, expected);
      checked = expected.first + place.out_base + expected.count;
    }
    check_untouched(out, checked, out.elements());
  }

  // In place, in around out must stay as well.
  void check_untouched(MemoryMap& map, uint64_t first, uint64_t end) {
    if (first >= end) {
      return;
    }
    map.visit(first, end - first, [&](uint64_t at, const MemoryMap::Cell& cell) {
      if (cell.writer) {
        find(Mistake::kResult,
             format("writes [{}, +{}), which is no part of the result", at, cell.count));
      }
    });
  }

  void check_range(MemoryMap& out, uint64_t base, const Expected& expected) {
    const uint64_t begin = expected.first + base;
    out.visit(begin, expected.count, [&](uint64_t at, const MemoryMap::Cell& cell) {
      const uint64_t origin = expected.origin + (at - begin);
      std::string wrong = wrong_terms(expected, origin, cell.value);
      if (!wrong.empty()) {
        find(Mistake::kResult, format("out [{}, +{}): {}", at - base, cell.count, wrong));
      } else if (!expected.source && spec_.deterministic && !in_order(cell.value)) {
        find(Mistake::kOrder, format("out [{}, +{}) is not reduced in the order of ranks: {}",
                                     at - base, cell.count, order_text(cell.value)));
      }
    });
  }

  std::string wrong_terms(const Expected& expected, uint64_t origin, const Value& value) const {
    const ValueTable::Node& node = values_.node(value.id);
    if (value.id == ValueTable::kOld) {
      return "nothing was written";
    }
    std::vector<int> found(static_cast<size_t>(spec_.ranks));
    for (const Term& term : node.terms) {
      const uint64_t at = value.origin + static_cast<uint64_t>(term.offset);
      if (at != origin) {
        return format("expected element {} of in, found element {} of rank {}", origin, at,
                      term.rank);
      }
      found[static_cast<size_t>(term.rank)] += 1;
    }
    for (int rank = 0; rank < spec_.ranks; ++rank) {
      const int wanted = !expected.source || *expected.source == rank ? 1 : 0;
      const int times = found[static_cast<size_t>(rank)];
      if (times != wanted) {
        return format("expected rank {} {}, found it {} (ranks {})", rank,
                      wanted == 1 ? "once" : "never",
                      times == 0 ? "missing" : format("{} times", times), order_text(value));
      }
    }
    if (!expected.source && spec_.ranks > 1 && !node.complete) {
      return "a partial result, not the final value";
    }
    return "";
  }

  bool in_order(const Value& value) const {
    const ValueTable::Node& node = values_.node(value.id);
    const bool ascending =
        std::is_sorted(node.terms.begin(), node.terms.end(),
                       [](const Term& a, const Term& b) { return a.rank < b.rank; });
    return node.left && ascending;
  }

  std::string order_text(const Value& value) const {
    std::string text;
    const auto& terms = values_.node(value.id).terms;
    for (size_t i = 0; i < terms.size() && i < 16; ++i) {
      text += (i == 0 ? "" : " ") + std::to_string(terms[i].rank);
    }
    return text + (terms.size() > 16 ? " ..." : "");
  }

  // All ranks hold what rank 0 holds: the same arithmetic, not only the same set.
  void check_equal_bits() {
    for (rank_ = 1; rank_ < spec_.ranks; ++rank_) {
      MemoryMap& first =
          region(0, spec_.in_place && spec_.count > 0 ? Region::kUser : Region::kOut);
      MemoryMap& own =
          region(rank_, spec_.in_place && spec_.count > 0 ? Region::kUser : Region::kOut);
      for (uint64_t at = 0; at < spec_.count;) {
        if (first.at(at).value.id != own.at(at).value.id) {
          find(Mistake::kOrder,
               format("out at {} is reduced in the order {}, on rank 0 in the order {}", at,
                      order_text(own.at(at).value), order_text(first.at(at).value)));
          break;
        }
        at = std::min(first.next_bound(at), own.next_bound(at));
      }
    }
  }

  const Spec& spec_;
  std::vector<std::vector<MemoryMap>>& memory_;
  const ValueTable& values_;
  int rank_ = 0;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Expected> expected_result(const Spec& spec, int rank) {
  std::vector<Expected> ranges;
  const auto own = spec.in_offset(rank, rank);
  switch (spec.op) {
    case Op::kAllReduce:
      add_block(ranges, 0, spec.count, {}, 0);
      break;
    case Op::kReduce:
      add_block(ranges, 0, rank == spec.root ? spec.count : 0, {}, 0);
      break;
    case Op::kReduceScatter:
      add_block(ranges, 0, spec.count, {}, own);
      break;
    case Op::kBroadcast:
      add_block(ranges, 0, spec.count, spec.root, 0);
      break;
    case Op::kScatter:
      add_block(ranges, 0, spec.count, spec.root, own);
      break;
    case Op::kPermute:
      for (const auto& [source, target] : spec.pairs) {
        add_block(ranges, 0, target == rank ? spec.count : 0, source, 0);
      }
      break;
    case Op::kBarrier:
      break;
    default:
      for (int from = 0; from < spec.ranks && (spec.op != Op::kGather || rank == spec.root);
           ++from) {
        add_source(ranges, spec, from, rank);
      }
      break;
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Expected& a, const Expected& b) { return a.first < b.first; });
  return ranges;
}

std::vector<Finding> check_result(const Schedule& schedule,
                                  std::vector<std::vector<MemoryMap>>& memory,
                                  const ValueTable& values) {
  return ResultCheck(schedule, memory, values).run();
}

}  // namespace onrt::cc
