// SPDX-License-Identifier: Apache-2.0
// The canonical order of a reduce-window, beside reduce_order.h.
//
//   The n elements of one window are those of its places that lie inside the operand and not
//   between its dilated elements, numbered row-major over the window. They are cut into chunks of
//   kWindowChunk. A chunk is folded from its first element on: c = combine(c, x). The chunk results
//   are folded likewise: total = combine(total, c). Last: combine(init, total); n = 0 gives init.
//   bf16, f16 and fp8 accumulate in f32 and are rounded to their type once, after init, unless the
//   combiner is a general one. So a running (prefix) fold, where all windows begin with the first
//   element, takes one pass.
//   Suffix form: if a dimension has no strides and dilations, all its windows end with the last
//   element and not all begin with the first, then windows are walked from their last element to
//   their first, with the sides of combine exchanged: c = combine(x, c), total = combine(c, total).
//   So a reversed running fold takes one pass, too.
#pragma once

#include <cstdint>
#include <span>

#include "emulator/isa/program.h"

namespace onrt::ncx {

inline constexpr int64_t kWindowChunk = 1024;

// True for the suffix form. `operand` and `windows` are the dims of the operand and of the result.
inline bool folds_backward(std::span<const WindowDimension> window,
                           std::span<const int64_t> operand, std::span<const int64_t> windows) {
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDimension& w = window[d];
    const bool plain =
        w.size > 1 && w.stride == 1 && w.window_dilation == 1 && w.base_dilation == 1;
    if (plain && w.size - w.padding_low >= operand[d] && windows[d] - 1 > w.padding_low) {
      return true;
    }
  }
  return false;
}

// The rule in its plainest form for the elements x[0..n), n > 0, of one window, in row-major order.
template <class T, class Combine>
T fold_window(const T* x, int64_t n, bool backward, Combine combine) {
  const auto element = [&](int64_t i) { return x[backward ? n - 1 - i : i]; };
  const auto join = [&](const T& done, const T& next) {
    return backward ? combine(next, done) : combine(done, next);
  };
  T total{};
  for (int64_t begin = 0; begin < n; begin += kWindowChunk) {
    T chunk = element(begin);
    for (int64_t i = begin + 1; i < n && i < begin + kWindowChunk; ++i) {
      chunk = join(chunk, element(i));
    }
    total = begin == 0 ? chunk : join(total, chunk);
  }
  return total;
}

}  // namespace onrt::ncx
