// SPDX-License-Identifier: Apache-2.0
// The canonical form of a graph, for cache keys.
#pragma once

#include "compiler/cache/key.h"
#include "compiler/hir/graph.h"

namespace onrt::cache {

// Equal for graphs that differ only in names (of the module, of computations and instructions), in
// source locations, in the order in which independent operations were appended, in values that
// nothing needs, and in whether equal callees are one computation or several. Names, order and
// aliases of the entry's inputs and outputs count. Time and memory are linear in the graph.
// Errors: NRT_INVALID if a computation lacks its root or a parameter, as from hir::verify().
Result<Digest> digest_of(const hir::Graph& graph);

}  // namespace onrt::cache
