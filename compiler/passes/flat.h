// SPDX-License-Identifier: Apache-2.0
// The flat form that lowering works on: the entry with calls and maps inlined, tuples taken apart,
// equal operations shared and dead ones gone. Nodes are in an order in which operands come first.
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
  std::span<const Ref> operands;
  std::span<const Type> results;
  std::span<const Attribute> attributes;

  std::span<const int64_t> ints(AttributeKey key) const {
    const Attribute* found = find(attributes, key);
    return found != nullptr ? found->ints : std::span<const int64_t>();
  }
};

struct FlatOptions {
  bool share = true;  // equal operations become one
  bool fold = true;   // operations on small constants are evaluated
  // Operands of f32 dots are converted to this type first; kF32: they are not.
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
  // Uses by live nodes and outputs.
  int uses(Ref ref) const { return uses_[value_index(ref)]; }
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
  friend class Flattener;
  Flat() = default;

  const Graph* graph_ = nullptr;  // Borrowed from make()'s caller
  Arena arena_;
  std::vector<Node> nodes_;
  std::vector<Ref> parameters_;
  std::vector<Ref> outputs_;
  std::vector<size_t> first_value_;
  std::vector<int> uses_;
};

}  // namespace onrt::hir
