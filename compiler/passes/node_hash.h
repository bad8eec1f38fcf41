// SPDX-License-Identifier: Apache-2.0
// Equality of nodes: the same operation on the same values gives the same value.
#pragma once

#include "compiler/passes/flat.h"

namespace onrt::hir {

// Names and sources don't matter.
bool same_node(const Node& a, const Node& b);
// Equal for nodes that are the same.
uint64_t hash_node(const Node& node);

}  // namespace onrt::hir
