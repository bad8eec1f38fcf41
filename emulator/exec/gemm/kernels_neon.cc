// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#include "emulator/exec/gemm/half_plain.h"
#include "emulator/exec/gemm/kernels.h"

namespace onrt::gemm_detail {
namespace {

struct F32Panel {
  float32x4_t v[4];
  void zero() { v[0] = v[1] = v[2] = v[3] = vdupq_n_f32(0.0f); }
  void load(const float* from) {
    for (int i = 0; i < 4; ++i) {
      v[i] = vld1q_f32(from + 4 * i);
    }
  }
  void store(float* to) const {
    for (int i = 0; i < 4; ++i) {
      vst1q_f32(to + 4 * i, v[i]);
    }
  }
  void add(const F32Panel& other) {
    for (int i = 0; i < 4; ++i) {
      v[i] = vaddq_f32(v[i], other.v[i]);
    }
  }
  void multiply_add(const float* scalar, const F32Panel& b) {
    const float32x4_t a = vdupq_n_f32(*scalar);
    for (int i = 0; i < 4; ++i) {
      v[i] = vfmaq_f32(v[i], a, b.v[i]);
    }
  }
  void multiply_add(const F32Panel& a, const F32Panel& b) {
    for (int i = 0; i < 4; ++i) {
      v[i] = vfmaq_f32(v[i], a.v[i], b.v[i]);
    }
  }
};
constexpr int kF32Rows = 6;  // 24 of the 32 registers are sums
constexpr int kF32Tiles = 6;
constexpr int kF32LineRows = 6;
constexpr int kF32LineTiles = 6;

}  // namespace
}  // namespace onrt::gemm_detail

#include "emulator/exec/gemm/kernel_body.h"

namespace onrt::gemm_detail {

const Kernels kNeonKernels = kKernels;

}  // namespace onrt::gemm_detail
