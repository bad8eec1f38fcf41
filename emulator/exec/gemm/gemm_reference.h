// SPDX-License-Identifier: Apache-2.0
// The oracle for gemm(): three loops and std::fma, in the order that gemm.h lays down.
#pragma once

#include "emulator/exec/gemm/gemm.h"

namespace onrt {

// Same contract as gemm(); the epilogue gets one tile per row.
Status gemm_reference(const GemmProblem& problem);

}  // namespace onrt
