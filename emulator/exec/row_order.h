// SPDX-License-Identifier: Apache-2.0
// Stable sorts of key words: the order of a row as positions.
#pragma once

#include <cstdint>
#include <span>

namespace onrt {

// Scratch of order_by_words() for n elements.
struct OrderScratch {
  uint64_t* items = nullptr;  // n
  uint64_t* spare = nullptr;  // n
  uint32_t* next = nullptr;   // n
};

// order[0..kept) = positions of the first `kept` elements in ascending order of their words, the
// most significant word first; equal elements keep their order. `order` has room for n; n < 2^32.
void order_by_words(std::span<const uint32_t* const> words, int64_t n, int64_t kept,
                    const OrderScratch& scratch, uint32_t* order);

}  // namespace onrt
