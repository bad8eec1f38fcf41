// SPDX-License-Identifier: Apache-2.0
// rng-bit-generator as XLA expands it: the counter-based generators of Salmon, Moraes, Dror and
// Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#include <array>

#include "compiler/hir/status.h"
#include "compiler/reference/interpreter.h"

namespace onrt::reference {
namespace {

using hir::AttributeKey;

uint32_t rotate_left(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }

std::array<uint32_t, 2> three_fry(uint64_t counter, uint64_t key) {
  static constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const auto k0 = static_cast<uint32_t>(key);
  const auto k1 = static_cast<uint32_t>(key >> 32);
  const std::array<uint32_t, 3> keys = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAU};
  std::array<uint32_t, 2> x = {static_cast<uint32_t>(counter) + keys[0],
                               static_cast<uint32_t>(counter >> 32) + keys[1]};
  for (uint32_t group = 0; group < 5; ++group) {
    for (const int rotation : kRotations[group % 2]) {
      x[0] += x[1];
      x[1] = x[0] ^ rotate_left(x[1], rotation);
    }
    x[0] += keys[(group + 1) % 3];
    x[1] += keys[(group + 2) % 3] + group + 1;
  }
  return x;
}

std::array<uint32_t, 4> philox(uint64_t low, uint64_t high, uint64_t key) {
  std::array<uint32_t, 4> x = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                               static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)};
  std::array<uint32_t, 2> k = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{x[0]} * 0xD2511F53U;
    const uint64_t b = uint64_t{x[2]} * 0xCD9E8D57U;
    x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ k[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ k[1], static_cast<uint32_t>(a)};
    k[0] += 0x9E3779B9U;
    k[1] += 0xBB67AE85U;
  }
  return x;
}

// The first even dimension, else the largest: XLA pairs neighbours along it.
size_t split_dimension(const Index& dims) {
  size_t largest = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] % 2 == 0) {
      return d;
    }
    largest = dims[d] > dims[largest] ? d : largest;
  }
  return largest;
}

void three_fry_bits(const Tensor& state, Tensor& next, Tensor& bits) {
  const uint64_t key = state.get(0);
  const uint64_t counter = state.get(1);
  if (dtype_bytes(bits.dtype) == 8) {
    for (int64_t i = 0; i < bits.elements(); ++i) {
      const auto words = three_fry(counter + static_cast<uint64_t>(i), key);
      bits.set(i, words[0] | uint64_t{words[1]} << 32);
    }
    next.set(1, counter + static_cast<uint64_t>(bits.elements()));
    return;
  }
  Tensor half{bits.dtype, bits.dims.empty() ? Index{1} : bits.dims, {}};
  const size_t split = split_dimension(half.dims);
  half.dims[split] = (half.dims[split] + 1) / 2;
  for_each_index(bits.dims, [&](const Index& index, int64_t position) {
    Index at = index.empty() ? Index{0} : index;
    const auto word = static_cast<size_t>(at[split] % 2);
    at[split] /= 2;
    bits.set(position,
             ncx::box_bits(bits.dtype, three_fry(counter + static_cast<uint64_t>(half.position(at)),
                                                 key)[word]));
  });
  next.set(1, counter + static_cast<uint64_t>(half.elements()));
}

void philox_bits(const Tensor& state, Tensor& next, Tensor& bits) {
  const bool wide = state.elements() == 3;
  const uint64_t key = state.get(0);
  const uint64_t low = state.get(1);
  const uint64_t high = state.get(wide ? 2 : 0);
  const int64_t words = dtype_bytes(bits.dtype) == 8 ? 2 : 1;  // of 32 bits per element
  const int64_t blocks = (bits.elements() * words + 3) / 4;
  const auto plus = [&](int64_t count) {
    const uint64_t sum = low + static_cast<uint64_t>(count);
    return std::array<uint64_t, 2>{sum, sum < low ? high + 1 : high};
  };
  for (int64_t i = 0; i < bits.elements(); ++i) {
    const auto counter = plus(i * words / 4);
    const auto block = philox(counter[0], counter[1], key);
    const auto word = static_cast<size_t>(i * words % 4);
    const uint64_t value = words == 1 ? block[word] : block[word] | uint64_t{block[word + 1]} << 32;
    bits.set(i, ncx::box_bits(bits.dtype, value));
  }
  const auto after = plus(blocks);
  next.set(1, after[0]);
  if (wide) {
    next.set(2, after[1]);
  }
}

}  // namespace

Status evaluate_rng_bit_generator(Operation& operation) {
  Tensor& next = operation.results[0];
  Tensor& bits = operation.results[1];
  next.data = operation.operand(0).data;
  if (bits.elements() == 0) {
    return ok_status();
  }
  if (operation.ints(AttributeKey::kRngAlgorithm)[0] == 1) {
    three_fry_bits(operation.operand(0), next, bits);
  } else {
    philox_bits(operation.operand(0), next, bits);
  }
  return ok_status();
}

// HLO leaves the stream of rng to the implementation: the engine's depends on the number of the
// execution, so there are no values to compare with.
Status evaluate_rng(Operation& /*operation*/) {
  return hir::unsupported(
      "the interpreter does not run rng: its values are the device's own; use "
      "rng-bit-generator");
}

}  // namespace onrt::reference
