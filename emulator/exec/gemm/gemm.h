// SPDX-License-Identifier: Apache-2.0
// Matrix multiplication of the emulated tensor engine:
//
//   C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n]
//
// Operands may have any element strides (transposed, broadcast with stride 0, reversed): packing
// reads them once and converts them on the way.
//
// Numerics, the same bits for every SIMD level, thread count, shape and stride:
//   - Floating operands are converted to f32 first (f64 is rounded, the others are exact).
//   - K is cut into blocks of ncx::kDotBlock (emulator/isa/reduce_order.h). Within a block the sum
//   starts at +0 and takes the products
//     in the order of k by f32 fused multiply-add. The first block's sum is the accumulator; each
//     later block's sum is added to it with one f32 addition.
//   - The accumulator is rounded to the type of C (nearest even). K = 0 gives zeros.
//   - Integer operands (and pred as 0 or 1) are multiplied and added modulo 2^32, or modulo 2^64
//     when C has 64-bit elements, which is exact modulo the range of C. C of type pred is "sum !=
//     0" over the conjunctions.
//   - Payload and sign of NaN results are not specified.
// gemm_reference() in gemm_reference.h is the same, written plainly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/exec/simd_level.h"
#include "emulator/exec/thread_pool.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

namespace onrt {

// Strides count elements. `data` is the element [0, 0, 0] and is aligned to the element size.
// A is [batch, m, k], B is [batch, k, n], C is [batch, m, n]: row, then column.
struct GemmOperand {
  const void* data = nullptr;
  Dtype dtype = Dtype::kF32;
  int64_t batch_stride = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

struct GemmOutput {
  void* data = nullptr;
  Dtype dtype = Dtype::kF32;
  int64_t batch_stride = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

// A finished rectangle of C. `values` holds elements of type `accumulator`: kF32 for a floating C,
// kS32 or kS64 for an integer one, already rounded (wrapped) to the values that C's type can hold.
struct GemmTile {
  int64_t batch = 0;
  int64_t row = 0;  // position of the tile in C
  int64_t column = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  Dtype accumulator = Dtype::kF32;
  const void* values = nullptr;  // [rows][row_stride], columns side by side; valid during the call
  int64_t row_stride = 0;
};

// Called for each tile instead of storing to C, from several threads at once for different tiles.
// Tiles cover C exactly once; how they are cut is not specified. Must not throw.
using GemmEpilogue = void (*)(void* context, const GemmTile& tile);

struct GemmProblem {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  GemmOperand a;
  GemmOperand b;
  GemmOutput c;                     // only its dtype is read when there is an epilogue
  GemmEpilogue epilogue = nullptr;  // null: store to C
  void* epilogue_context = nullptr;
};

// Packing buffers that one thread keeps between calls of gemm(). Thread-compatible: one call at a
// time. Holds at most about 20 MiB plus 1 MiB per thread of the pool.
class GemmScratch {
 public:
  GemmScratch() = default;
  // At least `bytes` of storage number `index`, aligned to 64 bytes; contents are not kept when it
  // grows. Null when there is no memory.
  void* reserve(size_t index, size_t bytes);
  // Makes room for `count` storages; call before threads share the object.
  void set_count(size_t count);

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  struct Storage {
    std::unique_ptr<void, Free> memory;
    size_t bytes = 0;
  };
  std::vector<Storage> storages_;
};

// Which type the sums have for this element type of C: kF32, kS32 or kS64.
Dtype gemm_accumulator(Dtype c);

// Computes `problem` with instructions of `level` on `pool` (null: on the calling thread alone).
// NRT_INVALID for negative sizes or operand types that do not go together (floating with integer),
// NRT_RESOURCE when packing buffers cannot be allocated. C must not overlap A or B.
Status gemm(const GemmProblem& problem, SimdLevel level, ThreadPool* pool, GemmScratch& scratch);

// The checks of gemm() alone.
Status check_gemm(const GemmProblem& problem);

}  // namespace onrt
