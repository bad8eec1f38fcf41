// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emulator/exec/gemm/gemm.h"
#include "emulator/exec/gemm/kernels.h"
#include "emulator/exec/simd_level.h"

namespace onrt::gemm_detail {

// Kernels of the fastest compiled level that is not above `level`.
const Kernels& kernels_for(SimdLevel level);

// gemm() with kernels that are not the best of their level.
Status gemm_with(const GemmProblem& problem, const Kernels& kernels, ThreadPool* pool,
                 GemmScratch& scratch);

}  // namespace onrt::gemm_detail
