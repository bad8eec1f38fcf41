// SPDX-License-Identifier: Apache-2.0
// Scatter of single elements into one array, as in segment sums and histograms: the time of a call
// per update would be many times that of the update.
#pragma once

#include "emulator/exec/executor.h"

namespace onrt {

// Null unless every window has one element, there is one array of a type whose registers look like
// its memory, and the combiner replaces, adds, multiplies, or takes the larger or smaller.
std::unique_ptr<Executor> make_element_scatter(const ncx::Scatter& op);

}  // namespace onrt
