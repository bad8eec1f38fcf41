// SPDX-License-Identifier: Apache-2.0
// Grows a Flat node by node: each one is simplified, folded, shared with an equal one, and put as
// far out of loops as pays.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/passes/flat.h"

namespace onrt::hir {

// Thread-compatible.
class FlatBuilder {
 public:
  using Values = std::vector<Ref>;  // one per array of a (nested) tuple

  // Borrows the graph, which outlives the builder and what it makes.
  FlatBuilder(const Graph& graph, const FlatOptions& options);

  Flat& flat() { return flat_; }
  const Flat& flat() const { return flat_; }

  // Appends, or finds an equal or simpler value. Operands may lie in temporary memory.
  Result<Values> add(Node node);
  // Appends as it is, to the current region or further out; operands stay where they lie.
  int32_t push(Node node);

  // A region inside the current one. Nodes go there between enter(), which returns the region that
  // was current, and resume() or, once the region has all of its nodes, finish_region().
  int32_t new_region();
  int32_t enter(int32_t region);
  void resume(int32_t outside) { current_ = outside; }
  void finish_region(int32_t region, int32_t outside);
  Region& region(int32_t number) { return flat_.regions_[static_cast<size_t>(number)]; }

 private:
  void forget(uint64_t hash, int32_t index);
  int32_t place(const Node& node) const;
  bool may_move_out(const Node& node) const;
  bool swap_transposed_dot(Node& node, std::array<Ref, 2>& operands);
  Values results_of(int32_t node) const;

  FlatOptions options_;
  Flat flat_;
  int32_t current_ = 0;               // region that is being filled
  std::vector<int32_t> depth_ = {0};  // of the regions
  std::vector<int64_t> stored_;       // by node: bytes of memory that its results are views of
  std::vector<int> graph_uses_;       // by value of the graph
  std::unordered_multimap<uint64_t, int32_t> by_hash_;  // nodes of regions that are being filled
  std::vector<std::vector<std::pair<uint64_t, int32_t>>> hashes_ =  // those of each region
      std::vector<std::vector<std::pair<uint64_t, int32_t>>>(1);
};

}  // namespace onrt::hir
