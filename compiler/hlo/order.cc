// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/order.h"

#include <cstddef>
#include <utility>

namespace onrt::hlo {
namespace {

enum class Mark : uint8_t { kNew, kOpen, kDone };

struct Visit {
  int32_t node;
  size_t next;  // index into needs[node]
};

}  // namespace

Order order_from(std::span<const int32_t> roots, std::span<const std::vector<int32_t>> needs) {
  Order order;
  std::vector<Mark> marks(needs.size(), Mark::kNew);
  std::vector<Visit> stack;
  const auto open = [&](int32_t node) {
    marks[static_cast<size_t>(node)] = Mark::kOpen;
    stack.push_back({node, 0});
  };
  for (const int32_t root : roots) {
    if (marks[static_cast<size_t>(root)] != Mark::kNew) {
      continue;
    }
    open(root);
    while (!stack.empty()) {
      Visit& visit = stack.back();
      const std::vector<int32_t>& needed = needs[static_cast<size_t>(visit.node)];
      if (visit.next == needed.size()) {
        marks[static_cast<size_t>(visit.node)] = Mark::kDone;
        order.nodes.push_back(visit.node);
        stack.pop_back();
        continue;
      }
      const int32_t next = needed[visit.next++];
      if (marks[static_cast<size_t>(next)] == Mark::kOpen) {
        order.cycle = next;
        return order;
      }
      if (marks[static_cast<size_t>(next)] == Mark::kNew) {
        open(next);
      }
    }
  }
  return order;
}

}  // namespace onrt::hlo
