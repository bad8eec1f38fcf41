// SPDX-License-Identifier: Apache-2.0
// Shape inference: one function per opcode gives the shape that its operands and attributes imply,
// or the reason why they are wrong.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/hir/graph.h"

namespace onrt::hir {

// A candidate with accessors that check. Lives during one append().
class InferContext {
 public:
  InferContext(Graph& graph, const Candidate& candidate) : graph_(graph), candidate_(candidate) {}

  const Candidate& candidate() const { return candidate_; }
  size_t operand_count() const { return candidate_.operands.size(); }
  const Shape& operand(size_t i) const { return graph_.shape_of(candidate_.operands[i]); }
  ShapeId operand_id(size_t i) const { return graph_[candidate_.operands[i]].shape; }
  // What the caller says the result is.
  const Shape& given() const { return graph_.shapes()[candidate_.shape]; }
  ShapeId given_id() const { return candidate_.shape; }
  const Graph& graph() const { return graph_; }
  ShapeTable& shapes() const { return graph_.shapes(); }

  const Attribute* find(AttributeKey key) const;
  // Empty if absent.
  std::span<const int64_t> ints(AttributeKey key) const;
  // Errors: invalid if absent or not of `count` integers.
  Result<std::span<const int64_t>> exactly(AttributeKey key, size_t count) const;
  // Distinct dimension numbers in [0, rank).
  Result<std::span<const int64_t>> dimensions(AttributeKey key, size_t rank) const;

  // Errors: invalid if an operand is not an array.
  Status require_arrays() const;
  // The callee that attribute Called names; exactly one.
  Result<const Computation*> callee() const;
  // The callees that attribute Called names; exactly `count`.
  Result<std::vector<const Computation*>> callees(size_t count) const;
  // Checks the callee's parameters and root: one parameter per entry of `parameters`.
  Status require_signature(const Computation& callee, std::span<const ShapeId> parameters,
                           ShapeId result) const;

  Result<ShapeId> array(Dtype dtype, std::span<const int64_t> dims) const;
  // One shape, or a tuple of them for more than one result.
  Result<ShapeId> one_or_tuple(std::span<const ShapeId> results) const;
  std::string text(ShapeId shape) const { return graph_.shapes().text(shape); }
  // invalid() with the operation before the text.
  Status wrong(std::string_view text) const;

 private:
  Graph& graph_;
  const Candidate& candidate_;
};

// The dispatch over opcodes.def.
Result<ShapeId> infer(const InferContext& context);

Result<ShapeId> infer_elementwise(const InferContext& context);

// Operands n arrays of the same dimensions, then n initial values, folded by the callee (2n scalars
// to n): results of `result_dims`. What reduce and reduce-window have in common.
Result<ShapeId> infer_fold(const InferContext& context, std::span<const int64_t> result_dims);
#define ONRT_OP(name, text, least, most, function) \
  Result<ShapeId> infer_##function(const InferContext& context);
#include "compiler/hir/opcodes.def"

}  // namespace onrt::hir
