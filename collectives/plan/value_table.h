// SPDX-License-Identifier: Apache-2.0
// Symbolic values for the verifier: which ranks' elements went into an element, in which order.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace onrt::cc {

// One rank's element. Offsets are relative to the value's origin.
struct Term {
  int rank = 0;
  int64_t offset = 0;
  auto operator<=>(const Term&) const = default;
};

using ValueId = uint32_t;

// A value and where it comes from: term i is element origin + terms[i].offset of in of its rank.
struct Value {
  ValueId id = 0;
  uint64_t origin = 0;
};

// Values are made once: equal ids are the same arithmetic, hence equal bits. Thread-compatible.
class ValueTable {
 public:
  explicit ValueTable(int ranks);

  // What a buffer held before; reading it is a mistake.
  static constexpr ValueId kOld = 0;
  // Element of rank's in.
  ValueId raw(int rank) const { return static_cast<ValueId>(rank) + 1; }
  // The fold from left to right; `complete`: rounded to the operation's type.
  Value fold(std::span<const Value> inputs, bool complete);

  struct Node {
    std::vector<Term> terms;  // in the order of the arithmetic
    bool left = true;         // ((t0 + t1) + t2) + ...
    bool complete = false;    // no operand of a reduction any more
  };
  const Node& node(ValueId id) const { return nodes_[id]; }

 private:
  struct Key {
    bool complete;
    bool left;
    std::vector<Term> terms;                            // left folds
    std::vector<std::pair<ValueId, int64_t>> children;  // others
    auto operator<=>(const Key&) const = default;
  };

  std::vector<Node> nodes_;
  std::map<Key, ValueId> known_;
};

}  // namespace onrt::cc
