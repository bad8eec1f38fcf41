// SPDX-License-Identifier: Apache-2.0
// Strided views as HLO: a program is given the memory from a view's first to its last element as
// a flat array, and reads or replaces the view's elements in it. No view goes over the host.
#pragma once

#include "python/torch_neuronx/csrc/graph.h"

namespace tnx {

// Sizes and strides (elements, not negative) of a view.
struct Layout {
  Dims sizes;
  Dims strides;

  bool operator==(const Layout&) const = default;
};

// Each element once and no gap between them: contiguous in some order of dimensions.
bool is_dense(const Layout& layout);
// Row-major strides.
Dims contiguous_strides(const Dims& sizes);
// Elements from the first to the last one, both included; 0 when there are none.
int64_t span_of(const Layout& layout);
// How long a flat array should be, if the storage is long enough, so that no padding is needed.
// At least span_of().
int64_t wanted_length(const Layout& layout);
// Of a view whose first element is `offset` elements into its storage: how many elements before it
// its row of the outermost dimension begins, if an array from there can be cut into such rows. 0
// otherwise.
int64_t row_start(const Layout& layout, int64_t offset);

// `flat` has at least span_of() elements from the one of index 0, which is at `start`: 0, or what
// row_start() says.
Value read_view(Graph& g, const Value& flat, const Layout& layout, int64_t start = 0);
// The elements of a dense view in the order of memory, 1-d.
Value flatten(Graph& g, const Value& value, const Layout& layout);
// `flat` with the view's elements replaced by those of `value`, which has the view's dims.
Value write_view(Graph& g, const Value& flat, const Value& value, const Layout& layout,
                 int64_t start = 0);

}  // namespace tnx
