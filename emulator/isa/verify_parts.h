// SPDX-License-Identifier: Apache-2.0
// Parts of the verifier: geometry of views, micro-programs, dimension numbers of gather and
// scatter, sorts, windows, small helpers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "emulator/isa/program.h"
#include "runtime/base/status.h"

namespace onrt::ncx {

// Bytes [low, high) that the view touches, relative to its space; empty views touch nothing.
struct Reach {
  int64_t low = 0;
  int64_t high = 0;
};

Result<Reach> reach_of(const View& view);

// No dimension is negative, and there are no more than kMaxElements elements.
Status verify_dims(std::span<const int64_t> dims);

// Whether two indices name the same element, which an output must not have. The view's reach lies
// in its space.
bool overlaps_itself(const View& view);

// Registers are defined before they are read, types fit, and the results have the types `want`.
// `rank` is that of the domain; `what` names the program in errors.
Status verify_micro(const MicroProgram& program, std::span<const Dtype> inputs,
                    std::span<const Dtype> want, int rank, std::string_view what);

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
