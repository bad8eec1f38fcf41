// SPDX-License-Identifier: Apache-2.0
// The windows of reduce-window and select-and-scatter.
#pragma once

#include <span>
#include <vector>

#include "compiler/hir/infer.h"
#include "emulator/isa/program.h"

namespace onrt::hir {

inline constexpr size_t kWindowInts = 7;  // integers of attribute Window for a dimension

// Attribute Window of a valid operation, one entry per dimension.
std::vector<ncx::WindowDimension> window_of(std::span<const int64_t> attribute);

// Checks attribute Window for an operand of these dims; gives the numbers of windows.
Result<std::vector<int64_t>> infer_windows(const InferContext& context,
                                           std::span<const int64_t> operand);

}  // namespace onrt::hir
