// SPDX-License-Identifier: Apache-2.0
#define ONRT_KERNEL_TABLE kernel_table_avx512
#include "emulator/exec/kernels/kernels_body.h"
