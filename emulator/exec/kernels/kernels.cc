// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/kernels/kernels.h"

namespace onrt {

const KernelTable& kernel_table_plain();
#if defined(__x86_64__)
const KernelTable& kernel_table_sse4();
const KernelTable& kernel_table_avx2();
const KernelTable& kernel_table_avx512();
#endif

const KernelTable& kernel_table(SimdLevel level) {
  switch (level) {
#if defined(__x86_64__)
    case SimdLevel::kSse4:
      return kernel_table_sse4();
    case SimdLevel::kAvx2:
      return kernel_table_avx2();
    case SimdLevel::kAvx512:
      return kernel_table_avx512();
#endif
    default:  // plain, and neon: the compiler's default target of aarch64 has it
      return kernel_table_plain();
  }
}

}  // namespace onrt
