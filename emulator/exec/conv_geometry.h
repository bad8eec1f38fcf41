// SPDX-License-Identifier: Apache-2.0
// Where the terms of a convolution lie.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/isa/program.h"

namespace onrt {

inline constexpr size_t kMaxConvAxes = ncx::kMaxRank - 3;

// Of one axis, the outputs that meet no holes of a dilated input with the kernel positions that
// they use: output out_first + i * out_step and kernel position kernel_first + j * kernel_step meet
// element i * stride + j * dilation - low of the input, for i < out and j < size. Elements outside
// [0, in) are +0.
struct ConvAxisPhase {
  int64_t out = 0;
  int64_t out_first = 0;
  int64_t out_step = 1;
  int64_t size = 0;
  int64_t kernel_first = 0;
  int64_t kernel_step = 1;
  int64_t in = 0;
  int64_t stride = 1;
  int64_t low = 0;
  int64_t dilation = 1;
};

// Phases that cover all outputs of an axis, one unless the input is dilated. Size 0: no terms.
std::vector<ConvAxisPhase> conv_axis_phases(const ncx::Conv::Axis& axis, int64_t in, int64_t size,
                                            int64_t out);

}  // namespace onrt
