// SPDX-License-Identifier: Apache-2.0
// Which arrays of a computation's result are arrays of its parameters, unchanged. A loop need not
// carry those: weights in the state of a scan, for example.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "compiler/hir/graph.h"

namespace onrt::hir {

// Arrays of a (nested) tuple; 1 for anything else.
size_t leaf_count(const ShapeTable& shapes, ShapeId id);
// Arrays of the elements before `index` of a tuple.
size_t leaves_before(const ShapeTable& shapes, const Shape& tuple, size_t index);

// Thread-compatible.
class PassThrough {
 public:
  // Borrows the graph, which outlives it.
  explicit PassThrough(const Graph& graph) : graph_(graph) {}

  // One number per array of the root: that of the parameters' array which it is, or -1. Arrays of
  // parameter 0 come first, then those of parameter 1, ...
  const std::vector<int32_t>& of(ComputationId computation);

 private:
  using Sources = std::vector<int32_t>;

  Sources of_instruction(const Instruction& instruction,
                         const std::unordered_map<ValueId, Sources>& values);
  Sources through(ComputationId callee, const Sources& arguments);

  const Graph& graph_;
  std::unordered_map<ComputationId, Sources> known_;
};

}  // namespace onrt::hir
