// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/gemm/f32_panel_emulated.h"
#include "emulator/exec/gemm/half_plain.h"
#include "emulator/exec/gemm/kernel_body.h"

namespace onrt::gemm_detail {

const Kernels kPlainKernels = kKernels;

}  // namespace onrt::gemm_detail
