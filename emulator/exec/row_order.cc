// SPDX-License-Identifier: Apache-2.0
// An item is a key word above a position, so that all items differ and any sort of them is stable.
#include "emulator/exec/row_order.h"

#include <algorithm>
#include <utility>

namespace onrt {
namespace {

constexpr int64_t kRadixFrom = 1024;  // shorter rows: comparisons are faster than histograms
constexpr int kDigitBits[] = {11, 11, 10};
constexpr int kDigits = 3;
constexpr uint32_t kMostBuckets = 1u << 11;
constexpr int64_t kFewKept = 64;  // are inserted into a sorted list

// By the upper 32 bits, least significant digit first. The result is in `items` or in `spare`:
// returns where.
uint64_t* radix_sort(uint64_t* items, uint64_t* spare, int64_t n) {
  uint32_t counts[kDigits][kMostBuckets] = {};
  for (int64_t i = 0; i < n; ++i) {
    const auto key = static_cast<uint32_t>(items[i] >> 32);
    ++counts[0][key & 0x7ff];
    ++counts[1][key >> 11 & 0x7ff];
    ++counts[2][key >> 22];
  }
  int shift = 32;
  for (int digit = 0; digit < kDigits; shift += kDigitBits[digit], ++digit) {
    const uint32_t mask = (1u << kDigitBits[digit]) - 1;
    uint32_t* count = counts[digit];
    if (count[items[0] >> shift & mask] == static_cast<uint32_t>(n)) {
      continue;  // all alike
    }
    uint32_t at = 0;
    for (uint32_t bucket = 0; bucket <= mask; ++bucket) {
      at += std::exchange(count[bucket], at);
    }
    for (int64_t i = 0; i < n; ++i) {
      spare[count[items[i] >> shift & mask]++] = items[i];
    }
    std::swap(items, spare);
  }
  return items;
}

// The first `kept` items in order: most others are larger than the last of the list so far.
uint64_t* keep_few(const uint64_t* items, uint64_t* list, int64_t n, int64_t kept) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t item = items[i];
    if (count == kept && item > list[kept - 1]) {
      continue;
    }
    int64_t at = count < kept ? count++ : kept - 1;
    for (; at > 0 && list[at - 1] > item; --at) {
      list[at] = list[at - 1];
    }
    list[at] = item;
  }
  return list;
}

bool any_below(const uint32_t* word, int64_t n, uint32_t limit) {
  uint32_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    found |= static_cast<uint32_t>(word[i] < limit);
  }
  return found != 0;
}

// keep_few() where the key is one word: of equal keys the earlier position is first, so only a
// smaller key enters a full list. `list` has room for kept keys.
void keep_few_words(const uint32_t* word, int64_t n, int64_t kept, uint32_t* list,
                    uint32_t* order) {
  constexpr int64_t kStretch = 64;
  int64_t count = 0;
  for (int64_t begin = 0; begin < n; begin += kStretch) {
    const int64_t end = std::min(begin + kStretch, n);
    if (count == kept && !any_below(word + begin, end - begin, list[kept - 1])) {
      continue;
    }
    for (int64_t i = begin; i < end; ++i) {
      if (count == kept && word[i] >= list[kept - 1]) {
        continue;
      }
      int64_t at = count < kept ? count++ : kept - 1;
      for (; at > 0 && list[at - 1] > word[i]; --at) {
        list[at] = list[at - 1];
        order[at] = order[at - 1];
      }
      list[at] = word[i];
      order[at] = static_cast<uint32_t>(i);
    }
  }
}

bool keeps_few(int64_t n, int64_t kept) { return kept > 0 && kept <= kFewKept && kept < n / 8; }

uint64_t* sort_items(uint64_t* items, uint64_t* spare, int64_t n, int64_t kept) {
  if (keeps_few(n, kept)) {
    return keep_few(items, spare, n, kept);
  }
  if (kept < n / 8) {
    std::nth_element(items, items + kept, items + n);
    std::sort(items, items + kept);
    return items;
  }
  if (n >= kRadixFrom) {
    return radix_sort(items, spare, n);
  }
  std::sort(items, items + n);
  return items;
}

}  // namespace

void order_by_words(std::span<const uint32_t* const> words, int64_t n, int64_t kept,
                    const OrderScratch& scratch, uint32_t* order) {
  if (words.size() == 1 && keeps_few(n, kept)) {
    keep_few_words(words[0], n, kept, scratch.next, order);
    return;
  }
  bool ordered = false;  // `order` holds what the words so far say
  for (size_t w = words.size(); w-- > 0;) {
    const uint32_t* word = words[w];
    const bool alike =
        words.size() > 1 && std::all_of(word, word + n, [&](uint32_t x) { return x == word[0]; });
    if (alike) {
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t key = word[ordered ? order[i] : static_cast<uint32_t>(i)];
      scratch.items[i] = static_cast<uint64_t>(key) << 32 | static_cast<uint32_t>(i);
    }
    const int64_t wanted = w == 0 ? kept : n;
    const uint64_t* sorted = sort_items(scratch.items, scratch.spare, n, wanted);
    for (int64_t i = 0; i < wanted; ++i) {
      const auto from = static_cast<uint32_t>(sorted[i]);
      scratch.next[i] = ordered ? order[from] : from;
    }
    std::copy(scratch.next, scratch.next + wanted, order);
    ordered = true;
  }
  for (int64_t i = 0; !ordered && i < kept; ++i) {
    order[i] = static_cast<uint32_t>(i);
  }
}

}  // namespace onrt
