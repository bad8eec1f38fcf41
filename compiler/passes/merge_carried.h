// SPDX-License-Identifier: Apache-2.0
// Carried values of a loop that start equal and change in the same way stay equal: one is enough.
// JAX counts the turns of a fori_loop twice.
#pragma once

#include <vector>

#include "compiler/passes/flat.h"

namespace onrt::hir {

// For one loop whose regions are complete, before it is a node. One run() per object.
class CarriedMerger {
 public:
  // Borrows both. Nodes of the regions are among those from `first_node` on.
  CarriedMerger(Flat& flat, const Node& loop, size_t first_node)
      : flat_(flat), loop_(loop), first_node_(first_node) {}

  // The number of the carried value that each one is; the regions use no other ones any more.
  std::vector<int32_t> run();

 private:
  bool change_alike(size_t a, size_t b) const;
  void use_first(const std::vector<Ref>& parameters, const std::vector<int32_t>& same);

  Flat& flat_;
  const Node& loop_;
  size_t first_node_;
};

}  // namespace onrt::hir
