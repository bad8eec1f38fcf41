// SPDX-License-Identifier: Apache-2.0
// Where the elements of windows lie: shared by reduce-window and select-and-scatter.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/isa/program.h"

namespace onrt {

// Elements of one dimension of one window: operand indices first, first + step, ...
struct ElementRun {
  int64_t first = 0;
  int64_t step = 1;
  int64_t count = 0;
};
using ElementRuns = std::array<ElementRun, ncx::kMaxRank>;

// One dimension. Immutable, made at load.
class WindowAxis {
 public:
  WindowAxis(const ncx::WindowDimension& window, int64_t operand, int64_t windows);

  ElementRun run(int64_t window) const {
    return window >= inner_begin_ && window < inner_end_
               ? ElementRun{window * window_.stride - window_.padding_low, window_.window_dilation,
                            window_.size}
               : outer_run(window);
  }
  // One place per window, and that is the element of the same index.
  bool trivial() const { return trivial_; }
  int64_t operand() const { return operand_; }
  int64_t windows() const { return windows_; }
  const ncx::WindowDimension& window() const { return window_; }

  // Windows [inner_begin, inner_end) have all their places inside an operand without dilation: from
  // one to the next, the elements move by the stride.
  int64_t inner_begin() const { return inner_begin_; }
  int64_t inner_end() const { return inner_end_; }

 private:
  ElementRun outer_run(int64_t window) const;

  ncx::WindowDimension window_;
  int64_t operand_;
  int64_t windows_;
  bool trivial_;
  int64_t inner_begin_ = 0;
  int64_t inner_end_ = 0;
  int64_t common_ = 1;   // gcd of the dilations
  int64_t modulus_ = 1;  // base dilation / common: only every modulus-th place has an element
  int64_t inverse_ = 0;  // of (window dilation / common) modulo modulus
};

std::vector<WindowAxis> make_axes(std::span<const ncx::WindowDimension> window,
                                  const ncx::View& operand, const ncx::View& windows);

// Offsets in an array with `strides` of a window's elements, relative to its first ones, row-major:
// elements [begin, end) of all. Appends to `out`.
void append_offsets(const ElementRuns& runs, size_t rank, std::span<const int64_t> strides,
                    int64_t begin, int64_t end, std::vector<int64_t>& out);

int64_t element_count(const ElementRuns& runs, size_t rank);

}  // namespace onrt
