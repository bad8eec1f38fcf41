// SPDX-License-Identifier: Apache-2.0
// From an aten call to a program: the boxed kernel behind every row of the lowering table, and the
// fallback to the CPU behind everything else.
#pragma once

namespace tnx {

// Registers a kernel for every row of the table with its in-place and out= variants, and the
// fallback for all other operations. Call once.
void register_kernels();

}  // namespace tnx
