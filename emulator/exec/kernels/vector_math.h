// SPDX-License-Identifier: Apache-2.0
// Functions of scalar_math.h and scalar_ops.h on vectors of f32: the same operations in the same
// order, hence the same bits, in fewer instructions than compilers find. kernels_test.cc compares
// them with the scalar functions.
#pragma once

#include <cstring>

#include "emulator/exec/kernels/vector_x86.h"

namespace onrt {
namespace {

// all(0) + x would turn -0 into +0; constants here are positive or not zero.

// exp of c in [-104, 89]; any value for NaN.
ONRT_VECTOR VectorF exp_inside(VectorF c) {
  constexpr float kMagic = 12582912.0f;
  const VectorF t = c * 1.44269504088896341f + kMagic;
  const VectorF n = t - kMagic;
  const VectorI k = (VectorI)t - 0x4b400000;
  VectorF r = c - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  VectorF p = 1.9875691500e-4f * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return times_power_of_two(p, n, k);
}

// exp of x <= 89; any value for NaN. What would be rounded to zero is not computed: results below
// the normal numbers cost a hundred times the others, and masked scores are full of them.
ONRT_VECTOR VectorF exp_below(VectorF x) {
  const VectorMask none = less(x, all(-104.0f));
  return choose(none, VectorF{}, exp_inside(choose(none, VectorF{}, x)));
}

ONRT_VECTOR VectorF exp_vector(VectorF x) {
  return choose(is_nan(x), x, exp_below(lesser(all(89.0f), x)));
}

ONRT_VECTOR VectorF logistic_vector(VectorF x) {
  const VectorF e = exp_below((VectorF)((VectorI)x | INT32_MIN));
  const VectorF y = choose(less(x, VectorF{}), e, all(1.0f)) / (1.0f + e);
  return choose(is_nan(x), x, y);
}

ONRT_VECTOR VectorF tanh_vector(VectorF x) {
  const VectorF a = magnitude(x);
  const VectorF z = x * x;
  VectorF p = -5.70498872745e-3f * z + 2.06390887954e-2f;
  p = p * z + -5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z + -3.33332819422e-1f;
  const VectorF small = p * z * x + x;
  const VectorF clamped = lesser(all(20.0f), a);
  const VectorF large = 1.0f - 2.0f / (exp_inside(clamped + clamped) + 1.0f);
  const VectorF y = choose(less(a, all(0.625f)), small, with_sign_bit(large, x));
  return choose(is_nan(x), x, y);
}

ONRT_VECTOR VectorF erf_vector(VectorF x) {
  const VectorF a = magnitude(x);
  const VectorF z = x * x;
  VectorF s = -9.641515869099846e-06f * z + 0.00011256947830742364f;
  s = s * z + -0.0008482828834218909f;
  s = s * z + 0.005220945432039461f;
  s = s * z + -0.026865400041855742f;
  s = s * z + 0.11283781974099644f;
  s = s * z + -0.37612638434650225f;
  const VectorF small = s * z * x + 0.12837916705802f * x + x;
  const VectorF t = lesser(all(4.0f), a);
  VectorF g = -7.989324538254578e-07f * t + 1.2693509143900587e-05f;
  g = g * t + -6.609278191454954e-05f;
  g = g * t + -9.447535902575262e-05f;
  g = g * t + 0.0033411718198528458f;
  g = g * t + -0.023803773811630558f;
  g = g * t + 0.10692479720609901f;
  g = g * t + 0.6342220879518257f;
  g = g * t + 1.1291933311501385f;
  g = g * t + -0.00012343084245269864f;
  const VectorF large = with_sign_bit(1.0f - exp_inside(-g), x);
  const VectorF y = choose(less(a, all(1.0f)), small, large);
  return choose(is_nan(x), x, y);
}

ONRT_VECTOR VectorF log_vector(VectorF x) {
  const VectorMask tiny = less(x, all(1.17549435e-38f));
  // Bits of negative numbers would overflow as signed ones; their results are replaced below.
  const VectorU bits = (VectorU)choose(tiny, x * 8388608.0f, x);
  const VectorI e = (VectorI)(bits - 0x3f3504f3U) >> 23;
  const VectorF f = (VectorF)(bits - ((VectorU)e << 23)) - 1.0f;
  const VectorF k = to_float(choose(tiny, e - 23, e));
  const VectorF s = f / (2.0f + f);
  const VectorF z = s * s;
  const VectorF w = z * z;
  const VectorF t1 = w * (0.40000972152f + w * 0.24279078841f);
  const VectorF t2 = z * (0.66666662693f + w * 0.28498786688f);
  const VectorF hfsq = 0.5f * f * f;
  VectorF y = s * (hfsq + (t2 + t1)) + k * 9.0580006145e-06f - hfsq + f + k * 6.9313812256e-01f;
  y = choose(less(x, all(__builtin_inff())), y, x);            // infinity, NaN
  y = choose(less(x, VectorF{}), all(__builtin_nanf("")), y);  // negative
  return choose(equal(x, VectorF{}), all(-__builtin_inff()), y);
}

// NaN of the first operand, then of the second; +0 is larger than -0.
ONRT_VECTOR VectorF maximum_vector(VectorF a, VectorF b) {
  // The two differ only where a and b are equal, hence in the sign of zero.
  const VectorF m = (VectorF)((VectorI)greater(a, b) & (VectorI)greater(b, a));
  return choose(is_nan(a), a, choose(is_nan(b), b, m));
}
ONRT_VECTOR VectorF minimum_vector(VectorF a, VectorF b) {
  const VectorF m = (VectorF)((VectorI)lesser(a, b) | (VectorI)lesser(b, a));
  return choose(is_nan(a), a, choose(is_nan(b), b, m));
}

ONRT_VECTOR VectorF rotated_vector(VectorF x, VectorF count) {
  const auto n = (VectorI)count;
  const auto rest = (VectorI)(32U - (VectorU)count);
  return (VectorF)(shift_left((VectorI)x, n) | shift_right((VectorI)x, rest));
}
ONRT_VECTOR VectorF exclusive_or(VectorF a, VectorF b) {
  return (VectorF)((VectorI)a ^ (VectorI)b);
}

template <bool kMaximum>
ONRT_VECTOR VectorF extreme(VectorF a, VectorF b) {  // of a and b that are no NaN
  return kMaximum ? (VectorF)((VectorI)greater(a, b) & (VectorI)greater(b, a))
                  : (VectorF)((VectorI)lesser(a, b) | (VectorI)lesser(b, a));
}

// The largest or smallest of n >= 2 * kVectorFloats values; false if one of them is NaN. Without
// NaN no order of the comparisons gives another result.
template <bool kMaximum>
[[gnu::always_inline]] inline bool find_extreme(const float* x, size_t n, float* out) {
  constexpr size_t kStep = kVectorFloats;
  VectorF best[2];
  std::memcpy(best, x, sizeof best);
  VectorMask nan = unordered(best[0], best[1]);
  for (size_t i = 2 * kStep; i < n; i += 2 * kStep) {
    // The last two vectors may repeat some values.
    const float* at = x + (i + 2 * kStep > n ? n - 2 * kStep : i);
    VectorF next[2];
    std::memcpy(next, at, sizeof next);
    nan = nan | unordered(next[0], next[1]);
    best[0] = extreme<kMaximum>(best[0], next[0]);
    best[1] = extreme<kMaximum>(best[1], next[1]);
  }
  float lanes[kStep];
  best[0] = extreme<kMaximum>(best[0], best[1]);
  std::memcpy(lanes, best, sizeof lanes);
  for (size_t i = 1; i < kStep; ++i) {
    lanes[0] = kMaximum ? ncx::scalar_maximum(lanes[0], lanes[i])
                        : ncx::scalar_minimum(lanes[0], lanes[i]);
  }
  *out = lanes[0];
  return !any(nan);
}

// `kByLanes` folds in the order of reduce_order.h.
template <bool kMaximum, FoldKernel kByLanes>
void fold_extreme(void* out, const void* x, size_t n, size_t rows, int64_t row_stride) {
  for (size_t r = 0; r < rows; ++r) {
    const float* row = static_cast<const float*>(x) + static_cast<int64_t>(r) * row_stride;
    float* to = static_cast<float*>(out) + r;
    if (n < 2 * kVectorFloats || !find_extreme<kMaximum>(row, n, to)) {
      kByLanes(to, row, n, 1, row_stride);
    }
  }
}

// f of kMany vectors at once from element i on.
template <int kOperands, size_t kMany, class F>
[[gnu::always_inline]] inline void map_some(float* o, const float* const* x, size_t i, F f) {
  constexpr size_t kStep = kVectorFloats;
  VectorF v[kMany][3] = {};
#pragma GCC unroll 4
  for (size_t j = 0; j < kMany; ++j) {
#pragma GCC unroll 3
    for (int k = 0; k < kOperands; ++k) {
      std::memcpy(&v[j][k], x[k] + i + j * kStep, sizeof(VectorF));
    }
  }
#pragma GCC unroll 4
  for (size_t j = 0; j < kMany; ++j) {
    v[j][0] = f(v[j]);
  }
#pragma GCC unroll 4
  for (size_t j = 0; j < kMany; ++j) {
    std::memcpy(o + i + j * kStep, &v[j][0], sizeof(VectorF));
  }
}

// out[i] = f(a[i], b[i], c[i]). Several vectors of a function of one operand are in work at once:
// its steps wait for each other. The rest of a vector is computed in a copy.
template <int kOperands, class F>
[[gnu::always_inline]] inline void map_vectors(void* out, const void* a, const void* b,
                                               const void* c, size_t n, F f) {
  constexpr size_t kStep = kVectorFloats;
  constexpr size_t kMany = kOperands == 1 ? kVectorsAtOnce : 1;
  auto* o = static_cast<float*>(out);
  const float* x[3] = {static_cast<const float*>(a), static_cast<const float*>(b),
                       static_cast<const float*>(c)};
  size_t i = 0;
  for (; i + kMany * kStep <= n; i += kMany * kStep) {
    map_some<kOperands, kMany>(o, x, i, f);
  }
  for (; kMany > 1 && i + kStep <= n; i += kStep) {
    map_some<kOperands, 1>(o, x, i, f);
  }
  if (i < n) {
    VectorF v[3] = {};
    for (int k = 0; k < kOperands; ++k) {
      std::memcpy(&v[k], x[k] + i, (n - i) * sizeof(float));
    }
    const VectorF y = f(v);
    std::memcpy(o + i, &y, (n - i) * sizeof(float));
  }
}

#define ONRT_VECTOR_KERNEL(operands, expression)                                                 \
  [](void* out, const void* a, const void* b, const void* c, size_t n, uint64_t) {               \
    map_vectors<operands>(out, a, b, c, n, [](const VectorF* v) __attribute__((always_inline)) { \
      return expression;                                                                         \
    });                                                                                          \
  }

// Replaces entries of a table of this level.
template <FoldKernel kMaximumByLanes, FoldKernel kMinimumByLanes>
void add_vector_math(KernelTable& table) {
  constexpr auto kF32 = static_cast<size_t>(ncx::RegisterClass::kF32);
  table.fold[static_cast<size_t>(ncx::ScalarOp::kMaximum)][kF32] =
      fold_extreme<true, kMaximumByLanes>;
  table.fold[static_cast<size_t>(ncx::ScalarOp::kMinimum)][kF32] =
      fold_extreme<false, kMinimumByLanes>;
  const auto set = [&](ncx::ScalarOp op, OpKernel kernel) {
    table.op[static_cast<size_t>(op)][static_cast<size_t>(ncx::RegisterClass::kF32)] = kernel;
  };
  set(ncx::ScalarOp::kExp, ONRT_VECTOR_KERNEL(1, exp_vector(v[0])));
  set(ncx::ScalarOp::kLogistic, ONRT_VECTOR_KERNEL(1, logistic_vector(v[0])));
  set(ncx::ScalarOp::kTanh, ONRT_VECTOR_KERNEL(1, tanh_vector(v[0])));
  set(ncx::ScalarOp::kErf, ONRT_VECTOR_KERNEL(1, erf_vector(v[0])));
  set(ncx::ScalarOp::kLog, ONRT_VECTOR_KERNEL(1, log_vector(v[0])));
  set(ncx::ScalarOp::kMaximum, ONRT_VECTOR_KERNEL(2, maximum_vector(v[0], v[1])));
  set(ncx::ScalarOp::kMinimum, ONRT_VECTOR_KERNEL(2, minimum_vector(v[0], v[1])));
  table.rotate_by = ONRT_VECTOR_KERNEL(2, rotated_vector(v[0], v[1]));
  table.rotate_by_xor = ONRT_VECTOR_KERNEL(3, exclusive_or(rotated_vector(v[0], v[1]), v[2]));
  set(ncx::ScalarOp::kClamp,
      ONRT_VECTOR_KERNEL(3, minimum_vector(maximum_vector(v[0], v[1]), v[2])));
}

}  // namespace
}  // namespace onrt
