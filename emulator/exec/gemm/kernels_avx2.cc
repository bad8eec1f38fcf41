// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "emulator/exec/gemm/kernels.h"

namespace onrt::gemm_detail {
namespace {

struct F32Panel {
  __m256 low, high;
  void zero() { low = high = _mm256_setzero_ps(); }
  void load(const float* from) {
    low = _mm256_loadu_ps(from);
    high = _mm256_loadu_ps(from + 8);
  }
  void store(float* to) const {
    _mm256_storeu_ps(to, low);
    _mm256_storeu_ps(to + 8, high);
  }
  void add(const F32Panel& other) {
    low = _mm256_add_ps(low, other.low);
    high = _mm256_add_ps(high, other.high);
  }
  void multiply_add(const float* scalar, const F32Panel& b) {
    const __m256 a = _mm256_broadcast_ss(scalar);
    low = _mm256_fmadd_ps(a, b.low, low);
    high = _mm256_fmadd_ps(a, b.high, high);
  }
  void multiply_add(const F32Panel& a, const F32Panel& b) {
    low = _mm256_fmadd_ps(a.low, b.low, low);
    high = _mm256_fmadd_ps(a.high, b.high, high);
  }
};

#define ONRT_DOT_WIDTH 2
struct DotPanel {
  __m256i low, high;
  void zero() { low = high = _mm256_setzero_si256(); }
  void load(const Dot* from) {
    low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 8));
  }
  void store(Dot* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), high);
  }
  void add(const DotPanel& other) {
    low = _mm256_add_epi32(low, other.low);
    high = _mm256_add_epi32(high, other.high);
  }
  void add_scalar(const Dot* scalar) {
    const __m256i a = _mm256_set1_epi32(static_cast<int>(*scalar));
    low = _mm256_add_epi32(low, a);
    high = _mm256_add_epi32(high, a);
  }
  void multiply_add(const Dot* scalar, const DotPanel& b) {
    const __m256i a = _mm256_set1_epi32(static_cast<int>(*scalar));
    low = _mm256_add_epi32(low, _mm256_madd_epi16(a, b.low));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(a, b.high));
  }
};
constexpr int kF32Rows = 6;  // 12 of the 16 registers are sums
constexpr int kF32Tiles = 6;
constexpr int kF32LineRows = 6;
constexpr int kF32LineTiles = 6;

void half_to_f32(const uint16_t* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  for (; i < n; ++i) {
    to[i] = _cvtsh_ss(from[i]);
  }
}

void f32_to_half(const float* from, int64_t n, uint16_t* to) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < n; ++i) {
    to[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
  }
}

}  // namespace
}  // namespace onrt::gemm_detail

#include "emulator/exec/gemm/kernel_body.h"

namespace onrt::gemm_detail {

const Kernels kAvx2Kernels = kKernels;

}  // namespace onrt::gemm_detail
