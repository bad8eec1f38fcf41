// SPDX-License-Identifier: Apache-2.0
// What happens to finished sums: rounded or wrapped to the type of C, then stored or given to the
// epilogue.
#pragma once

#include "emulator/exec/gemm/gemm.h"
#include "emulator/exec/gemm/kernels.h"

namespace onrt::gemm_detail {

// Thread-safe: immutable. `problem` and `kernels` outlive it.
class Finish {
 public:
  // `turned`: the tiles are those of the transposed product; the epilogue sees them turned back.
  Finish(const GemmProblem& problem, const Kernels& kernels, bool turned)
      : p_(problem), kernels_(kernels), turned_(turned) {}

  // `sums` is [rows][stride] of the accumulator type and is overwritten. `room` holds as many
  // elements; used when a turned tile goes to the epilogue.
  void tile(int64_t batch, int64_t row, int64_t rows, int64_t column, int64_t columns, void* sums,
            int64_t stride, void* room) const;

 private:
  void round_line(void* line, int64_t columns) const;
  void store_line(int64_t batch, int64_t row, int64_t column, int64_t columns,
                  const void* line) const;

  const GemmProblem& p_;
  const Kernels& kernels_;
  const bool turned_;
};

}  // namespace onrt::gemm_detail
