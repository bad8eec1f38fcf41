// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/window_map.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace onrt {
namespace {

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t ceil_divide(int64_t a, int64_t b) { return -floor_divide(-a, b); }

// x with a * x = 1 modulo m, for coprime a and m; 0 for m = 1. (Extended Euclid.)
int64_t inverse_modulo(int64_t a, int64_t m) {
  int64_t old_r = a % m;
  int64_t r = m;
  int64_t old_s = 1;
  int64_t s = 0;
  while (r != 0) {
    const int64_t q = old_r / r;
    old_r = std::exchange(r, old_r - q * r);
    old_s = std::exchange(s, old_s - q * s);
  }
  return (old_s % m + m) % m;
}

}  // namespace

WindowAxis::WindowAxis(const ncx::WindowDimension& window, int64_t operand, int64_t windows)
    : window_(window),
      operand_(operand),
      windows_(windows),
      trivial_(window.size == 1 && window.stride == 1 && window.padding_low == 0 &&
               window.base_dilation == 1 && operand == windows),
      common_(std::gcd(window.window_dilation, window.base_dilation)),
      modulus_(window.base_dilation / common_),
      inverse_(inverse_modulo(window.window_dilation / common_, modulus_)) {
  const ncx::WindowDimension& w = window_;
  if (w.base_dilation == 1) {
    const int64_t last = operand - 1 + w.padding_low - (w.size - 1) * w.window_dilation;
    inner_begin_ = std::clamp<int64_t>(ceil_divide(w.padding_low, w.stride), 0, windows);
    inner_end_ = std::clamp<int64_t>(floor_divide(last, w.stride) + 1, inner_begin_, windows);
  }
}

ElementRun WindowAxis::outer_run(int64_t window) const {
  const ncx::WindowDimension& w = window_;
  const int64_t base = window * w.stride - w.padding_low;
  const int64_t top = (operand_ - 1) * w.base_dilation;  // place of the last element
  if (operand_ == 0 || base > top) {
    return {};
  }
  int64_t first = base < 0 ? ceil_divide(-base, w.window_dilation) : 0;
  const int64_t last = std::min(w.size - 1, (top - base) / w.window_dilation);
  if (modulus_ > 1 || common_ > 1) {
    if (base % common_ != 0) {
      return {};
    }
    // base + k * window_dilation must be a multiple of base_dilation.
    const int64_t wanted = ((-base / common_) % modulus_ + modulus_) % modulus_;
    __extension__ using Wide = __int128;
    const auto k = static_cast<int64_t>(static_cast<Wide>(wanted) * inverse_ % modulus_);
    first += ((k - first) % modulus_ + modulus_) % modulus_;
  }
  if (first > last) {
    return {};
  }
  return {(base + first * w.window_dilation) / w.base_dilation, w.window_dilation / common_,
          (last - first) / modulus_ + 1};
}

std::vector<WindowAxis> make_axes(std::span<const ncx::WindowDimension> window,
                                  const ncx::View& operand, const ncx::View& windows) {
  std::vector<WindowAxis> axes;
  for (size_t d = 0; d < window.size(); ++d) {
    axes.emplace_back(window[d], operand.dims[d], windows.dims[d]);
  }
  return axes;
}

void append_offsets(const ElementRuns& runs, size_t rank, std::span<const int64_t> strides,
                    int64_t begin, int64_t end, std::vector<int64_t>& out) {
  std::array<int64_t, ncx::kMaxRank> index{};
  int64_t rest = begin;
  int64_t offset = 0;
  for (size_t d = rank; d-- > 0;) {
    index[d] = rest % runs[d].count;
    rest /= runs[d].count;
    offset += index[d] * runs[d].step * strides[d];
  }
  for (int64_t i = begin; i < end; ++i) {
    out.push_back(offset);
    for (size_t d = rank; d-- > 0;) {
      offset += runs[d].step * strides[d];
      if (++index[d] < runs[d].count) {
        break;
      }
      offset -= index[d] * runs[d].step * strides[d];
      index[d] = 0;
    }
  }
}

int64_t element_count(const ElementRuns& runs, size_t rank) {
  int64_t count = 1;
  for (size_t d = 0; d < rank; ++d) {
    count *= runs[d].count;  // at most the operand's elements
  }
  return count;
}

}  // namespace onrt
