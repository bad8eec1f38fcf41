// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/merge_carried.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/passes/node_hash.h"

namespace onrt::hir {

std::vector<int32_t> CarriedMerger::run() {
  std::vector<int32_t> same(loop_.operands.size());
  std::map<std::pair<int32_t, int32_t>, int32_t> first_with;  // by initial value
  bool any = false;
  for (size_t k = 0; k < same.size(); ++k) {
    const Ref init = loop_.operands[k];
    const auto number = static_cast<int32_t>(k);
    same[k] = first_with.try_emplace({init.node, init.result}, number).first->second;
    if (same[k] != number && !change_alike(static_cast<size_t>(same[k]), k)) {
      same[k] = number;
    }
    any = any || same[k] != number;
  }
  for (size_t r = 0; any && r < loop_.regions.size(); ++r) {
    use_first(flat_.region(loop_.regions[r]).parameters, same);
  }
  return same;
}

// The body gives both the same value, or makes them by one operation, on themselves and on
// otherwise equal values.
bool CarriedMerger::change_alike(size_t a, size_t b) const {
  const Region& body = flat_.region(loop_.regions[1]);
  const Ref from = body.results[a];
  const Ref to = body.results[b];
  if (from == to) {
    return true;
  }
  const Node& made = flat_[to.node];
  if (from.node == to.node || from.result != to.result || made.opcode == Opcode::kParameter ||
      made.opcode == Opcode::kRng || !made.regions.empty()) {
    return false;
  }
  std::vector<Ref> operands(made.operands.begin(), made.operands.end());
  std::ranges::replace(operands, body.parameters[b], body.parameters[a]);
  Node renamed = made;
  renamed.operands = operands;
  return same_node(flat_[from.node], renamed);
}

void CarriedMerger::use_first(const std::vector<Ref>& parameters,
                              const std::vector<int32_t>& same) {
  const int32_t begin = parameters[0].node;  // one node each, in order
  const auto replaced = [&](std::span<const Ref> refs) {
    std::vector<Ref> made(refs.begin(), refs.end());
    for (Ref& ref : made) {
      const int32_t k = ref.node - begin;
      if (k >= 0 && k < static_cast<int32_t>(same.size())) {
        ref = parameters[static_cast<size_t>(same[static_cast<size_t>(k)])];
      }
    }
    return made;
  };
  for (size_t i = first_node_; i < flat_.nodes_.size(); ++i) {
    Node& node = flat_.nodes_[i];
    const std::vector<Ref> made = replaced(node.operands);
    if (!std::ranges::equal(made, node.operands)) {
      node.operands = flat_.arena_.copy(std::span<const Ref>(made));
    }
  }
  for (auto r = static_cast<size_t>(loop_.regions[0]); r < flat_.regions_.size(); ++r) {
    flat_.regions_[r].results = replaced(flat_.regions_[r].results);
  }
}

}  // namespace onrt::hir
