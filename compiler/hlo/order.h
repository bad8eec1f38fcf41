// SPDX-License-Identifier: Apache-2.0
// Orders nodes so that each comes after those that it needs. Iterative: a hostile module can chain
// as many nodes as it has bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace onrt::hlo {

// needs[i] lists the nodes that node i needs; every number is below needs.size().
struct Order {
  std::vector<int32_t> nodes;  // those reached from the roots; a node's needs come before it
  int32_t cycle = -1;          // a node on a cycle; -1 if there is none
};

// Depth first from each root in turn; nodes already in a right order keep it as far as they are
// reached in it.
Order order_from(std::span<const int32_t> roots, std::span<const std::vector<int32_t>> needs);

}  // namespace onrt::hlo
