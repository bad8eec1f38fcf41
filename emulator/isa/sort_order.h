// SPDX-License-Identifier: Apache-2.0
// The canonical sort. A comparator that is a strict weak order has exactly one stable result,
// however it is reached. For any other comparator (plain `<` with NaNs, or nonsense) the result is
// that of the merges below, so that the reference interpreter and every executor agree: runs of 1,
// 2, 4, ... elements are merged in pairs from the left, and the right element is taken first only
// if it must come before the left one. At most n * ceil(log2 n) comparisons, no access outside [0,
// n).
#pragma once

#include <algorithm>
#include <cstdint>

namespace onrt::ncx {

// Sorts x[0..n); `spare` has room for n. before(a, b): a must come before b. `stopped()` is asked
// once per merge; when it says true the order is left unfinished.
template <class T, class Before, class Stopped>
void sort_in_order(T* x, T* spare, int64_t n, Before before, Stopped stopped) {
  T* from = x;
  T* to = spare;
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * width) {
      const int64_t middle = std::min(begin + width, n);
      const int64_t end = std::min(begin + 2 * width, n);
      int64_t left = begin;
      int64_t right = middle;
      for (int64_t at = begin; at < end; ++at) {
        const bool take_right = left == middle || (right < end && before(from[right], from[left]));
        to[at] = take_right ? from[right++] : from[left++];
      }
      if (stopped()) {
        return;
      }
    }
    std::swap(from, to);
  }
  if (from != x) {
    std::copy(from, from + n, x);
  }
}

template <class T, class Before>
void sort_in_order(T* x, T* spare, int64_t n, Before before) {
  sort_in_order(x, spare, n, before, [] { return false; });
}

}  // namespace onrt::ncx
