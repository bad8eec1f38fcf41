// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/conv_geometry.h"

#include <algorithm>
#include <numeric>

namespace onrt {
namespace {

// Least j in [0, period) for which base divides start + j * step, or -1.
int64_t first_hit(int64_t start, int64_t step, int64_t base, int64_t period) {
  const int64_t add = step % base;
  int64_t rest = (start % base + base) % base;
  for (int64_t j = 0; j < period; ++j) {
    if (rest == 0) {
      return j;
    }
    rest += add;
    rest -= rest >= base ? base : 0;
  }
  return -1;
}

}  // namespace

std::vector<ConvAxisPhase> conv_axis_phases(const ncx::Conv::Axis& axis, int64_t in, int64_t size,
                                            int64_t out) {
  const int64_t base = axis.base_dilation;
  const int64_t out_step = base / std::gcd(axis.stride, base);
  const int64_t kernel_step = base / std::gcd(axis.dilation, base);
  std::vector<ConvAxisPhase> phases;
  for (int64_t first = 0; first < out_step && first < out; ++first) {
    ConvAxisPhase phase;
    phase.out = (out - first - 1) / out_step + 1;
    phase.out_first = first;
    phase.out_step = out_step;
    phase.in = in;
    const int64_t start = first * axis.stride - axis.low;
    const int64_t hit = first_hit(start, axis.dilation, base, std::min(kernel_step, size));
    if (hit >= 0) {
      phase.kernel_first = hit;
      phase.kernel_step = kernel_step;
      phase.size = (size - hit - 1) / kernel_step + 1;
      phase.stride = out_step * axis.stride / base;
      phase.dilation = kernel_step * axis.dilation / base;
      phase.low = -((start + hit * axis.dilation) / base);
    }
    phases.push_back(phase);
  }
  return phases;
}

}  // namespace onrt
