// SPDX-License-Identifier: Apache-2.0
// The level AVX-512 on processors that also have its dot products of bytes.
#include "emulator/exec/gemm/kernels_avx512.cc"
