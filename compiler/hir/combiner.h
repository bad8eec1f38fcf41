// SPDX-License-Identifier: Apache-2.0
// What the computation of a reduce does, seen as scalar operations.
#pragma once

#include <vector>

#include "compiler/hir/graph.h"
#include "emulator/isa/scalar_op.h"

namespace onrt::hir {

// If result i is one combiner operation of parameters i and n + i, for every i: those operations.
// Else empty: the computation is a general one. The two differ in numerics
// (emulator/isa/reduce_order.h), so the interpreter and lowering must both ask here.
std::vector<ncx::ScalarOp> simple_combiners(const Graph& graph, ComputationId computation);

}  // namespace onrt::hir
