// SPDX-License-Identifier: Apache-2.0
// The canonical order of sums. Float addition is not associative, so the order is part of the
// semantics: the reference interpreter and every executor follow it, and a result does not depend
// on fusion, thread count or the host's vector width.
//
// reduce (HLO reduce; also the row sums inside a fused instruction)
//   The n values of one kept element, x[0..n), are numbered row-major over the reduced dimensions
//   (in ascending order of the operand's dimensions). They are cut into chunks of kReduceChunk.
//   In a chunk, lane l (0 <= l < kReduceLanes) combines x[l], x[l + 8], x[l + 16], ... in that
//   order: acc = combine(acc, x). Lanes are folded in halves: acc[l] = combine(acc[l], acc[l + 4])
//   for l < 4, then + 2, then + 1. A lane without values is left out. The chunk results, in order,
//   are reduced by the same rule until one is left. Last: combine(init, total); n = 0 gives init.
//   bf16, f16 and fp8 accumulate in f32 and are rounded to their type once, after init.
//   (XLA promotes such reductions to f32 in the same way.) f64 accumulates in f32.
//   A general combiner need not be commutative (argmax meets the first of several NaNs), so its
//   values keep their order: neighbours are combined in pairs, x[0] with x[1], x[2] with x[3], ...,
//   one without a neighbour stays as it is, and again, until one is left. Its ops round to their
//   types as usual. Init comes last here, too.
//
// reduce-window: window_order.h. sort: sort_order.h.
//
// dot (Gemm)
//   k is cut into blocks of kDotBlock. In a block: acc = +0, then acc = fma(a[k], b[k], acc) in f32
//   for ascending k (one rounding per step). Block results are added in order, starting with the
//   first block's value; the total is rounded to the dot's type once. Integers: exact modulo
//   2^bits.
//
// convolution (Conv)
//   The terms of one result are numbered row-major over the kernel's positions (in the order in
//   which they meet the input: a reversed window is a reversed kernel), then the input features.
//   Positions that meet a hole of the dilated input are no terms; those outside the input are
//   terms with +0, which like any other is multiplied. The numbered terms are summed as a dot's k.
#pragma once

#include <cstdint>

namespace onrt::ncx {

inline constexpr int64_t kReduceChunk = 1024;
inline constexpr int kReduceLanes = 8;
inline constexpr int64_t kDotBlock = 256;

// The rule in its plainest form: combine x[0..n), n > 0, in place (x is overwritten).
// Combine is T(T, T).
template <class T, class Combine>
T reduce_in_order(T* x, int64_t n, Combine combine) {
  for (;;) {
    int64_t chunks = 0;
    for (int64_t begin = 0; begin < n; begin += kReduceChunk) {
      const int64_t count = n - begin < kReduceChunk ? n - begin : kReduceChunk;
      T lanes[kReduceLanes]{};
      const int used = count < kReduceLanes ? static_cast<int>(count) : kReduceLanes;
      for (int lane = 0; lane < used; ++lane) {
        lanes[lane] = x[begin + lane];
      }
      for (int64_t i = kReduceLanes; i < count; ++i) {
        lanes[i % kReduceLanes] = combine(lanes[i % kReduceLanes], x[begin + i]);
      }
      for (int half = kReduceLanes / 2; half > 0; half /= 2) {
        for (int lane = 0; lane < half && lane + half < used; ++lane) {
          lanes[lane] = combine(lanes[lane], lanes[lane + half]);
        }
      }
      x[chunks++] = lanes[0];
    }
    if (chunks == 1) {
      return x[0];
    }
    n = chunks;
  }
}

// The rule of a general combiner, likewise.
template <class T, class Combine>
T reduce_in_pairs(T* x, int64_t n, Combine combine) {
  for (; n > 1; n = (n + 1) / 2) {
    for (int64_t i = 0; i < n / 2; ++i) {
      x[i] = combine(x[2 * i], x[2 * i + 1]);
    }
    if (n % 2 == 1) {
      x[n / 2] = x[n - 1];
    }
  }
  return x[0];
}

}  // namespace onrt::ncx
