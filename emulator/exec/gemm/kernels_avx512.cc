// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "emulator/exec/gemm/kernels.h"

namespace onrt::gemm_detail {
namespace {

// One register. With 24 rows of one panel the scalar of A is an operand in memory of the
// multiply-add itself ({1to16}), which costs no slot of its own, and both panels of a block of k
// (24 KiB and 16 KiB) stay in the first cache.
struct F32Panel {
  __m512 v;
  void zero() { v = _mm512_setzero_ps(); }
  void load(const float* from) { v = _mm512_loadu_ps(from); }
  void store(float* to) const { _mm512_storeu_ps(to, v); }
  void add(const F32Panel& other) { v = _mm512_add_ps(v, other.v); }
  void multiply_add(const float* scalar, const F32Panel& b) {
    v = _mm512_fmadd_ps(_mm512_set1_ps(*scalar), b.v, v);
  }
  void multiply_add(const F32Panel& a, const F32Panel& b) { v = _mm512_fmadd_ps(a.v, b.v, v); }
};

#ifdef __AVX512VNNI__
#define ONRT_DOT_WIDTH 4
#else
#define ONRT_DOT_WIDTH 2
#endif
struct DotPanel {
  __m512i v;
  void zero() { v = _mm512_setzero_si512(); }
  void load(const Dot* from) { v = _mm512_loadu_si512(from); }
  void store(Dot* to) const { _mm512_storeu_si512(to, v); }
  void add(const DotPanel& other) { v = _mm512_add_epi32(v, other.v); }
  void add_scalar(const Dot* scalar) {
    v = _mm512_add_epi32(v, _mm512_set1_epi32(static_cast<int>(*scalar)));
  }
#ifdef __AVX512VNNI__
  template <bool kSigned>
  void add_bytes(const DotPanel& words) {
    const __m512i ones = _mm512_set1_epi8(1);
    v = kSigned ? _mm512_dpbusd_epi32(v, ones, words.v) : _mm512_dpbusd_epi32(v, words.v, ones);
  }
#endif
#ifdef __AVX512VNNI__
  // By hand: gcc 12 copies the sum for the intrinsic and runs out of registers.
  void multiply_add(const Dot* scalar, const DotPanel& b) {
    __asm__("vpdpbusd %1%{1to16%}, %2, %0" : "+v"(v) : "m"(*scalar), "v"(b.v));
  }
#else
  void multiply_add(const Dot* scalar, const DotPanel& b) {
    const __m512i a = _mm512_set1_epi32(static_cast<int>(*scalar));
    v = _mm512_add_epi32(v, _mm512_madd_epi16(a, b.v));
  }
#endif
};
constexpr int kF32Rows = 24;
constexpr int kF32Tiles = 24;
constexpr int kF32LineRows = 14;
constexpr int kF32LineTiles = 28;

// The maskz_ forms: gcc 12 warns of an uninitialized value inside the plain ones.
void half_to_f32(const uint16_t* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm512_storeu_ps(to + i, _mm512_maskz_cvtph_ps(0xffff, half));
  }
  for (; i < n; ++i) {
    to[i] = _cvtsh_ss(from[i]);
  }
}

void f32_to_half(const float* from, int64_t n, uint16_t* to) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i half =
        _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), half);
  }
  for (; i < n; ++i) {
    to[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
  }
}

}  // namespace
}  // namespace onrt::gemm_detail

#include "emulator/exec/gemm/kernel_body.h"

namespace onrt::gemm_detail {

#ifdef __AVX512VNNI__
const Kernels kAvx512VnniKernels = kKernels;
#else
const Kernels kAvx512Kernels = kKernels;
#endif

}  // namespace onrt::gemm_detail
