// SPDX-License-Identifier: Apache-2.0
// Recognises comparators that compare keys: sorts of such rows need no comparator at run time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/isa/program.h"

namespace onrt {

// One key of a lexicographic order: a value made from one element of each input.
struct SortKey {
  ncx::MicroProgram value;   // inputs: one element of each; one result
  std::vector<bool> inputs;  // those that `value` reads
  Dtype type = Dtype::kF32;
  bool descending = false;
  bool total = false;  // floats: the total order; otherwise `<`, where a NaN has no place
};

// The keys, most significant first, whose order is the comparator's; empty if it is of another
// form. Accepted: f(a) < f(b) or >, with any f that is the same on both sides; and
// first(a, b) or (equal(a, b) and rest(a, b)), also written as a select.
std::vector<SortKey> find_sort_keys(const ncx::MicroProgram& comparator,
                                    std::span<const Dtype> input_types);

// The key of a register as unsigned words, in the order of the key. Returns the number of words
// (1 or 2; the more significant first) for one register of the type.
int sort_words(Dtype type);

// Encodes n registers. False if a NaN has no place in the order.
bool encode_sort_key(const SortKey& key, const void* registers, size_t n, uint32_t* high,
                     uint32_t* low);

}  // namespace onrt
