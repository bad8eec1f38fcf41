// SPDX-License-Identifier: Apache-2.0
// Prefix sums and their like, for rows of several files.
#pragma once

#include "python/torch_neuronx/csrc/lower/lowering.h"

namespace tnx {

// result[i] = x[0] op .. op x[i] along dim, `init` is the operation's identity, 0-d.
// The compiler makes one pass of it.
Value scan(Graph& g, const char* opcode, const Value& x, int64_t dim, const Value& init);

}  // namespace tnx
