// SPDX-License-Identifier: Apache-2.0
// F32Panel for processors without fused multiply-add: the same bits, slowly.
//
// The product of two f32 is exact in f64. The sum is rounded to odd there (if it is inexact, of the
// two neighbours the one whose last bit is 1), after which rounding to f32 gives what one rounding
// would have given, because f64 has more than two bits to spare: S. Boldo, G. Melquiond, "Emulation
// of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008. The error of
// the f64 sum is Knuth's TwoSum.
#pragma once

#include "emulator/exec/gemm/kernels.h"

namespace onrt::gemm_detail {
namespace {

typedef float Float4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double Double4 __attribute__((vector_size(32)));
typedef int64_t Long4 __attribute__((vector_size(32)));

inline __attribute__((always_inline)) void emulated_fma(const Double4& a, const Float4& b,
                                                        Float4& c) {
  const Double4 product = a * __builtin_convertvector(b, Double4);
  const Double4 addend = __builtin_convertvector(c, Double4);
  const Double4 sum = product + addend;
  const Double4 back = sum - product;
  const Double4 error = (product - (sum - back)) + (addend - back);
  // NaN errors (sums with infinities) compare false and change nothing.
  const Long4 inexact = (error < 0.0) | (error > 0.0);
  const Long4 away = (error > 0.0) == (sum > 0.0);  // -1 where the exact sum is larger in magnitude
  Long4 bits = (Long4)sum;
  const Long4 even = (bits & 1) == 0;
  const Long4 step = (away & 2) - 1;  // +1 or -1
  bits += step & inexact & even;
  c = __builtin_convertvector((Double4)bits, Float4);
}

struct F32Panel {
  Float4 v[4];
  void zero() { v[0] = v[1] = v[2] = v[3] = Float4{}; }
  void load(const float* from) {
    for (int i = 0; i < 4; ++i) {
      v[i] = *reinterpret_cast<const Float4*>(from + 4 * i);
    }
  }
  void store(float* to) const {
    for (int i = 0; i < 4; ++i) {
      *reinterpret_cast<Float4*>(to + 4 * i) = v[i];
    }
  }
  void add(const F32Panel& other) {
    for (int i = 0; i < 4; ++i) {
      v[i] += other.v[i];
    }
  }
  void multiply_add(const float* scalar, const F32Panel& b) {
    for (int i = 0; i < 4; ++i) {
      emulated_fma(Double4{} + static_cast<double>(*scalar), b.v[i], v[i]);
    }
  }
  void multiply_add(const F32Panel& a, const F32Panel& b) {
    for (int i = 0; i < 4; ++i) {
      emulated_fma(__builtin_convertvector(a.v[i], Double4), b.v[i], v[i]);
    }
  }
};
constexpr int kF32Rows = 2;
constexpr int kF32Tiles = 2;
constexpr int kF32LineRows = 2;
constexpr int kF32LineTiles = 2;

}  // namespace
}  // namespace onrt::gemm_detail
