// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/kernels/kernels.h"

#include <gtest/gtest.h>

namespace onrt {
namespace {

// Operations that are not entries of KernelTable::op.
bool is_elsewhere(const ncx::ScalarOpInfo& info) {
  return info.result == ncx::ResultRule::kLeaf || info.result == ncx::ResultRule::kSelect ||
         info.result == ncx::ResultRule::kConvert || info.result == ncx::ResultRule::kBitcast;
}

// A null entry would be called the first time that a program has the operation.
TEST(Kernels, EveryOperationHasOneForEachOfItsTypes) {
  constexpr Dtype kTypes[] = {
#define ONRT_DTYPE(name, text, bytes, nrt, xla) Dtype::k##name,
#include "runtime/base/dtype.def"
#undef ONRT_DTYPE
  };
  for (const SimdLevel level : compiled_simd_levels()) {
    if (!simd_level_runs_here(level)) {
      continue;
    }
    const KernelTable& table = kernel_table(level);
    for (uint32_t number = 0; number < ncx::kScalarOps; ++number) {
      const ncx::ScalarOpInfo& info = *ncx::find_scalar_op(number);
      for (const Dtype type : kTypes) {
        if (is_elsewhere(info) || (info.operand_kinds & ncx::dtype_kind(type)) == 0) {
          continue;
        }
        const auto reg = static_cast<size_t>(ncx::register_class(type));
        EXPECT_NE(table.op[number][reg], nullptr)
            << info.name << " of " << dtype_name(type) << " at level " << simd_level_name(level)
            << ": no set() in kernels_body.h";
      }
    }
  }
}

}  // namespace
}  // namespace onrt
