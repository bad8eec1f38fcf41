// SPDX-License-Identifier: Apache-2.0
// The flat form that lowering works on: the entry with calls and maps inlined, tuples taken apart,
// equal operations shared and dead ones gone. Nodes are in an order in which operands come first.
//
// A region is what runs together: region 0 is the entry; a loop has two more (condition, body), a
// conditional one per branch. A node may use values of its own region and of those around it. The
// operands, parameters and results of a loop are its carried values only: what the body gives back
// unchanged is used from outside, where it is; branches take no parameters at all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/hir/graph.h"

namespace onrt::hir {

struct Type {
  Dtype dtype = Dtype::kF32;
  std::span<const int64_t> dims;
  int64_t elements = 0;

  size_t bytes() const { return static_cast<size_t>(elements) * dtype_bytes(dtype); }
};

// One array: result `result` of node `node`.
struct Ref {
  int32_t node = -1;
  int32_t result = 0;

  bool operator==(const Ref&) const = default;
};

struct Node {
  Opcode opcode = Opcode::kConstant;
  ValueId origin = -1;  // instruction of the graph, for messages and names
  bool live = false;
  int32_t region = 0;
  // while: condition, body; conditional: the branches.
  std::span<const int32_t> regions;
  std::span<const Ref> operands;
  std::span<const Type> results;
  std::span<const Attribute> attributes;

  std::span<const int64_t> ints(AttributeKey key) const {
    const Attribute* found = find(attributes, key);
    return found != nullptr ? found->ints : std::span<const int64_t>();
  }
};

enum class RegionKind : uint8_t { kMain, kCondition, kBody, kBranch };

struct Region {
  RegionKind kind = RegionKind::kMain;
  int32_t parent = -1;
  int32_t owner = -1;  // the node that runs it; -1: the entry
  // kCondition, kBody: one node per carried value, one after the other.
  std::vector<Ref> parameters;
  // kCondition: the predicate; kBody, kBranch: one per result of the owner.
  std::vector<Ref> results;
  std::vector<int32_t> order;  // its own live nodes, in the order in which they are lowered

  bool repeats() const { return kind == RegionKind::kCondition || kind == RegionKind::kBody; }
};

struct FlatOptions {
  bool share = true;  // equal operations become one
  bool fold = true;   // operations on small constants are evaluated
  // Operands of f32 dots and convolutions are converted to this type first; kF32: they are not.
  Dtype dot_type = Dtype::kF32;
};

// Thread-compatible.
class Flat {
 public:
  // Borrows the graph, which outlives it. Errors: invalid (no root, ...), unsupported, too_large.
  static Result<Flat> make(const Graph& graph, const FlatOptions& options);

  const Graph& graph() const { return *graph_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& operator[](int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
  const Type& type(Ref ref) const {
    return (*this)[ref.node].results[static_cast<size_t>(ref.result)];
  }
  // By parameter number.
  const std::vector<Ref>& parameters() const { return parameters_; }
  // By output number; elements of the root.
  const std::vector<Ref>& outputs() const { return outputs_; }
  const std::vector<Region>& regions() const { return regions_; }
  const Region& region(int32_t region) const { return regions_[static_cast<size_t>(region)]; }
  // Uses by live nodes, results of regions and outputs. Of a loop and a conditional only the live
  // values count.
  int uses(Ref ref) const { return uses_[value_index(ref)]; }
  // False for a result of a loop or conditional that nothing needs: it is not computed.
  bool is_live(Ref ref) const { return live_[value_index(ref)]; }
  // Values are numbered: results of node 0, of node 1, ...
  size_t value_index(Ref ref) const {
    return first_value_[static_cast<size_t>(ref.node)] + static_cast<size_t>(ref.result);
  }
  size_t value_count() const { return uses_.size(); }
  // "instruction 'add.7' (add)".
  std::string describe(const Node& node) const { return hir::describe(*graph_, node.origin); }

  // One node a line; for dumps and golden tests.
  std::string text() const;

 private:
  friend class FlatBuilder;
  friend class Flattener;
  friend class FlatFinisher;
  friend class CarriedMerger;
  Flat() = default;
  void append_region(int32_t region, size_t depth, std::string& out) const;

  const Graph* graph_ = nullptr;  // Borrowed from make()'s caller
  Arena arena_;
  std::vector<Node> nodes_;
  std::vector<Ref> parameters_;
  std::vector<Ref> outputs_;
  std::vector<Region> regions_;
  std::vector<bool> live_;
  std::vector<size_t> first_value_;
  std::vector<int> uses_;
};

}  // namespace onrt::hir
