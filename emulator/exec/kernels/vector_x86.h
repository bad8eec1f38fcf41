// SPDX-License-Identifier: Apache-2.0
// The few vector operations that kernels need and the compiler doesn't make of scalar code, for the
// level this translation unit is compiled for: AVX2 or AVX-512. The rest are the operators of the
// compiler's vector types.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace onrt {
namespace {

#define ONRT_VECTOR [[maybe_unused, gnu::always_inline]] static inline

#ifdef __AVX512F__

inline constexpr int kVectorBytes = 64;
inline constexpr size_t kVectorsAtOnce = 4;  // of 32 registers
typedef float VectorF __attribute__((vector_size(64)));
typedef int32_t VectorI __attribute__((vector_size(64)));
typedef uint32_t VectorU __attribute__((vector_size(64)));
using VectorMask = __mmask16;

ONRT_VECTOR VectorMask less(VectorF a, VectorF b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ);
}
ONRT_VECTOR VectorMask equal(VectorF a, VectorF b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ);
}
ONRT_VECTOR VectorMask unordered(VectorF a, VectorF b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q);
}
ONRT_VECTOR bool any(VectorMask mask) { return mask != 0; }
ONRT_VECTOR VectorMask is_nan(VectorF a) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q);
}
ONRT_VECTOR VectorF choose(VectorMask mask, VectorF yes, VectorF no) {
  return (VectorF)_mm512_mask_blend_ps(mask, (__m512)no, (__m512)yes);
}
ONRT_VECTOR VectorI choose(VectorMask mask, VectorI yes, VectorI no) {
  return (VectorI)_mm512_mask_blend_epi32(mask, (__m512i)no, (__m512i)yes);
}
// a < b ? a : b and a > b ? a : b: b if one of them is NaN.
ONRT_VECTOR VectorF lesser(VectorF a, VectorF b) {
  return (VectorF)_mm512_min_ps((__m512)a, (__m512)b);
}
ONRT_VECTOR VectorF greater(VectorF a, VectorF b) {
  return (VectorF)_mm512_max_ps((__m512)a, (__m512)b);
}
// Zero for counts of 32 and more.
ONRT_VECTOR VectorI shift_left(VectorI a, VectorI count) {
  return (VectorI)_mm512_sllv_epi32((__m512i)a, (__m512i)count);
}
ONRT_VECTOR VectorI shift_right(VectorI a, VectorI count) {
  return (VectorI)_mm512_srlv_epi32((__m512i)a, (__m512i)count);
}
ONRT_VECTOR VectorF to_float(VectorI a) { return (VectorF)_mm512_cvtepi32_ps((__m512i)a); }
ONRT_VECTOR VectorF square_root(VectorF a) { return (VectorF)_mm512_sqrt_ps((__m512)a); }

// p * 2^n, rounded once; n is a whole number.
ONRT_VECTOR VectorF times_power_of_two(VectorF p, VectorF n, VectorI) {
  return (VectorF)_mm512_scalef_ps((__m512)p, (__m512)n);
}

#else

inline constexpr int kVectorBytes = 32;
inline constexpr size_t kVectorsAtOnce = 1;  // 16 registers are too few for more
typedef float VectorF __attribute__((vector_size(32)));
typedef int32_t VectorI __attribute__((vector_size(32)));
typedef uint32_t VectorU __attribute__((vector_size(32)));
typedef int32_t VectorMask __attribute__((vector_size(32)));  // all bits of an element or none

ONRT_VECTOR VectorMask less(VectorF a, VectorF b) {
  return (VectorMask)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_LT_OQ);
}
ONRT_VECTOR VectorMask equal(VectorF a, VectorF b) {
  return (VectorMask)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_EQ_OQ);
}
ONRT_VECTOR VectorMask unordered(VectorF a, VectorF b) {
  return (VectorMask)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q);
}
ONRT_VECTOR bool any(VectorMask mask) { return _mm256_movemask_ps((__m256)mask) != 0; }
ONRT_VECTOR VectorMask is_nan(VectorF a) {
  return (VectorMask)_mm256_cmp_ps((__m256)a, (__m256)a, _CMP_UNORD_Q);
}
ONRT_VECTOR VectorF choose(VectorMask mask, VectorF yes, VectorF no) {
  return (VectorF)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
}
ONRT_VECTOR VectorI choose(VectorMask mask, VectorI yes, VectorI no) {
  return (VectorI)_mm256_blendv_epi8((__m256i)no, (__m256i)yes, (__m256i)mask);
}
ONRT_VECTOR VectorF lesser(VectorF a, VectorF b) {
  return (VectorF)_mm256_min_ps((__m256)a, (__m256)b);
}
ONRT_VECTOR VectorF greater(VectorF a, VectorF b) {
  return (VectorF)_mm256_max_ps((__m256)a, (__m256)b);
}
ONRT_VECTOR VectorI shift_left(VectorI a, VectorI count) {
  return (VectorI)_mm256_sllv_epi32((__m256i)a, (__m256i)count);
}
ONRT_VECTOR VectorI shift_right(VectorI a, VectorI count) {
  return (VectorI)_mm256_srlv_epi32((__m256i)a, (__m256i)count);
}
ONRT_VECTOR VectorF to_float(VectorI a) { return (VectorF)_mm256_cvtepi32_ps((__m256i)a); }
ONRT_VECTOR VectorF square_root(VectorF a) { return (VectorF)_mm256_sqrt_ps((__m256)a); }

// In two factors, each a normal number; k is n as an integer.
ONRT_VECTOR VectorF times_power_of_two(VectorF p, VectorF, VectorI k) {
  const VectorI half = k >> 1;
  return p * (VectorF)((half + 127) << 23) * (VectorF)((k - half + 127) << 23);
}

#endif

inline constexpr int kVectorFloats = kVectorBytes / 4;

ONRT_VECTOR VectorF all(float x) { return VectorF{} + x; }
ONRT_VECTOR VectorF magnitude(VectorF a) { return (VectorF)((VectorI)a & 0x7fffffff); }
ONRT_VECTOR VectorF with_sign_bit(VectorF magnitude, VectorF sign) {
  return (VectorF)(((VectorI)magnitude & 0x7fffffff) | ((VectorI)sign & INT32_MIN));
}

}  // namespace
}  // namespace onrt
