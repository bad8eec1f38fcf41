// SPDX-License-Identifier: Apache-2.0
// Parts of the verifier: dimension numbers of gather and scatter, sorts, windows, small helpers.
#pragma once

#include <string>
#include <string_view>

#include "emulator/isa/program.h"
#include "runtime/base/status.h"

namespace onrt::ncx {

// Rules of XLA's shape inference for gather and scatter; the views themselves are checked before.
Status verify_gather(const Gather& op);
Status verify_scatter(const Scatter& op);

// Counts, dims and types of the views, which are checked before; numbers of the windows. The
// micro-programs are checked after.
Status verify_sort(const Sort& op);
Status verify_reduce_window(const ReduceWindow& op);
Status verify_select_scatter(const SelectScatter& op);

bool same_dims(const View& a, const View& b);

// Control characters as \xNN.
std::string printable(std::string_view text);

}  // namespace onrt::ncx
