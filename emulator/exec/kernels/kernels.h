// SPDX-License-Identifier: Apache-2.0
// Loops over contiguous registers (blocks of elements in their register class, scalar_ops.h), one
// table of them per SIMD level. Every table gives the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "emulator/exec/simd_level.h"
#include "emulator/isa/scalar_op.h"
#include "emulator/isa/scalar_ops.h"

namespace onrt {

// Elements that an executor processes at a time: registers of a block stay in the first cache.
inline constexpr int64_t kBlock = 1024;

// out[i] = f(a[i], b[i], c[i]) for i < n. Unused operands are ignored. `out` may be one of the
// operands but must not overlap them otherwise. `immediate` as in MicroOp; for integer ops that
// depend on the width of the type it is the number of bits.
using OpKernel = void (*)(void* out, const void* a, const void* b, const void* c, size_t n,
                          uint64_t immediate);
// Memory to register or back, `stride` in elements of the strided side.
using MoveKernel = void (*)(void* out, const void* in, int64_t stride, size_t n);

// Row r of out = the values x[r * row_stride + (0..n)) combined in the order of one chunk of
// reduce_order.h; 0 < n <= kReduceChunk.
using FoldKernel = void (*)(void* out, const void* x, size_t n, size_t rows, int64_t row_stride);

// out[i] = the values x[offsets[k] + i * stride], k < count, combined in the order of k.
using TapsKernel = void (*)(void* out, const void* x, const int64_t* offsets, size_t count,
                            int64_t stride, size_t n);

inline constexpr size_t kDtypeNumbers = 32;  // larger than any Dtype number

struct KernelTable {
  // By op and by register class of the (last) operand; null where the table of semantics has none.
  std::array<std::array<OpKernel, ncx::kRegisterClasses>, ncx::kScalarOps> op{};
  // By register class of the operand and dtype of the result; also rounds.
  std::array<std::array<OpKernel, kDtypeNumbers>, ncx::kRegisterClasses> convert{};
  // Rounds or wraps a register to the type in place; null where there is nothing to do.
  std::array<OpKernel, kDtypeNumbers> settle{};
  std::array<MoveKernel, kDtypeNumbers> load{};          // contiguous memory -> register
  std::array<MoveKernel, kDtypeNumbers> load_strided{};  // any stride, also 0 and negative
  std::array<MoveKernel, kDtypeNumbers> store{};         // register -> contiguous memory
  std::array<MoveKernel, kDtypeNumbers> store_strided{};
  std::array<OpKernel, ncx::kRegisterClasses> fill{};  // immediate: the register's value
  // Several ops at once, rounded one by one (micro_fusion.h).
  // [outer][inner][k]: outer(inner(a, b), c), or outer(c, inner(a, b)) for k = 1; of additions,
  // subtractions and multiplications, in this order. Integers of 32 bits.
  using ChainKernels = std::array<std::array<std::array<OpKernel, 2>, 3>, 3>;
  ChainKernels chain_float{};
  ChainKernels chain_integer{};
  // a compared with the immediate ? b : c; by kCompareEq.. and the class of a, which has 32 bits
  // like b and c.
  std::array<std::array<OpKernel, ncx::kRegisterClasses>, 6> compare_select{};
  // a << (immediate & 255) | a >> (immediate >> 8) of u32; the other is that exclusive-or b.
  OpKernel rotate = nullptr;
  OpKernel rotate_xor = nullptr;
  // a << b | a >> (32 - b) of u32; the other is that exclusive-or c.
  OpKernel rotate_by = nullptr;
  OpKernel rotate_by_xor = nullptr;
  // a divided by the immediate, 2 to 2^31 - 1, towards zero, and what is left; kI32 and kU32. The
  // others are for powers of two, whose exponent is the immediate.
  std::array<OpKernel, ncx::kRegisterClasses> divide_by{};
  std::array<OpKernel, ncx::kRegisterClasses> remainder_by{};
  std::array<OpKernel, ncx::kRegisterClasses> divide_by_power{};
  std::array<OpKernel, ncx::kRegisterClasses> remainder_by_power{};
  OpKernel select32 = nullptr;
  OpKernel select64 = nullptr;
  // By combiner and register class; null for ops that combine nothing.
  std::array<std::array<FoldKernel, ncx::kRegisterClasses>, ncx::kScalarOps> fold{};
  std::array<std::array<TapsKernel, ncx::kRegisterClasses>, ncx::kScalarOps> fold_taps{};
  // out[0] = a[0]; out[i] = combine(out[i - 1], a[i]).
  std::array<std::array<OpKernel, ncx::kRegisterClasses>, ncx::kScalarOps> scan{};
};

// The table of a level that runs here.
const KernelTable& kernel_table(SimdLevel level);

inline uint32_t register_bytes(ncx::RegisterClass reg) {
  return reg >= ncx::RegisterClass::kI64 ? 8 : 4;
}

}  // namespace onrt
