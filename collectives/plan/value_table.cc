// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/value_table.h"

#include <utility>

namespace onrt::cc {

ValueTable::ValueTable(int ranks) {
  nodes_.emplace_back();
  for (int rank = 0; rank < ranks; ++rank) {
    nodes_.push_back({{{rank, 0}}, true, false});
  }
}

Value ValueTable::fold(std::span<const Value> inputs, bool complete) {
  Key key = {complete, true, {}, {}};
  const uint64_t origin = inputs.front().origin;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Node& input = nodes_[inputs[i].id];
    // A left fold stays one when its first operand is one and the others are single elements.
    key.left = key.left && input.left && (i == 0 || input.terms.size() == 1);
    const auto shift = static_cast<int64_t>(inputs[i].origin - origin);
    for (const Term& term : input.terms) {
      key.terms.push_back({term.rank, term.offset + shift});
    }
    key.children.emplace_back(inputs[i].id, shift);
  }
  Node node = {key.terms, key.left, complete};
  // What tells values apart is the list of terms of a left fold, and the tree of another one.
  (key.left ? key.children.clear() : key.terms.clear());
  const auto [found, is_new] =
      known_.try_emplace(std::move(key), static_cast<ValueId>(nodes_.size()));
  if (is_new) {
    nodes_.push_back(std::move(node));
  }
  return {found->second, origin};
}

}  // namespace onrt::cc
