// SPDX-License-Identifier: Apache-2.0
// Reductions that several files of rows need; inputs without elements included.
#pragma once

#include "python/torch_neuronx/csrc/lower/lowering.h"

namespace tnx {

// Graph::reduce for positions that are wrapped; without elements, the operation's neutral element.
Value fold(Graph& g, const char* opcode, const Value& x, const Dims& dims, bool keep = false);

// Sum over dims divided by their number of elements (NaN for none).
Value mean_of(Graph& g, const Value& x, const Dims& dims, bool keep = false);

// Mean over dims of the squared distances to the mean `center` (which keeps the dims).
Value variance_of(Graph& g, const Value& x, const Value& center, const Dims& dims,
                  bool keep = false);

// dims[from], ..., dims[to - 1] as positions.
Dims dim_range(int64_t from, int64_t to);

}  // namespace tnx
