// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emulator/exec/gemm/kernels.h"
#include "emulator/exec/simd_level.h"

namespace onrt::gemm_detail {

// Kernels of the fastest compiled level that is not above `level`.
const Kernels& kernels_for(SimdLevel level);

}  // namespace onrt::gemm_detail
