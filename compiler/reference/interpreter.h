// SPDX-License-Identifier: Apache-2.0
// The reference interpreter: one obvious function per opcode, dense arrays, no speed. It says what
// a graph means; compiled programs must give the same bits. Scalar operations and the order of sums
// are those of emulator/isa (scalar_value.h, reduce_order.h).
#pragma once

#include <span>
#include <vector>

#include "compiler/hir/graph.h"
#include "compiler/reference/tensor.h"
#include "runtime/base/status.h"

namespace onrt::reference {

using Tensors = std::vector<Tensor>;  // a tuple's arrays, depth first

// What one interpretation may still do. Loops that never end are no reason to hang.
struct Budget {
  static constexpr int64_t kIterations = int64_t{1} << 20;
  int64_t iterations = kIterations;  // of all loops together
};

// One operation: operands and results are arrays.
struct Operation {
  const hir::Graph& graph;
  hir::Opcode opcode;
  std::span<const hir::Attribute> attributes;
  std::vector<const Tensor*> operands;
  Tensors results;           // of the right types, zeros
  Budget* budget = nullptr;  // of loops inside; null: they have one of their own

  const Tensor& operand(size_t i) const { return *operands[i]; }
  Tensor& result() { return results[0]; }
  // Empty if absent.
  std::span<const int64_t> ints(hir::AttributeKey key) const {
    const hir::Attribute* found = hir::find(attributes, key);
    return found != nullptr ? found->ints : std::span<const int64_t>();
  }
  hir::ComputationId callee() const {
    return static_cast<hir::ComputationId>(ints(hir::AttributeKey::kCalled)[0]);
  }
};

// The results of a computation whose parameter i is `arguments[i]`. `budget` null: a full one.
// Errors: unsupported when the budget is used up; names the loop.
Result<Tensors> interpret(const hir::Graph& graph, hir::ComputationId computation,
                          std::span<const Tensors> arguments, Budget* budget = nullptr);

// Zeros of this shape; a tuple gives one array per leaf.
Tensors make_tensors(const hir::Graph& graph, hir::ShapeId shape);

// The dispatch over opcodes.def.
Status evaluate(Operation& operation);

Status evaluate_elementwise(Operation& operation);
#define ONRT_OP(name, text, least, most, function) Status evaluate_##function(Operation& operation);
#include "compiler/hir/opcodes.def"

}  // namespace onrt::reference
