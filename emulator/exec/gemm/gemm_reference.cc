// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/gemm/gemm_reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "emulator/exec/gemm/element.h"
#include "emulator/isa/reduce_order.h"

namespace onrt {
namespace {

int64_t a_index(const GemmProblem& p, int64_t batch, int64_t m, int64_t k) {
  return batch * p.a.batch_stride + m * p.a.row_stride + k * p.a.column_stride;
}

int64_t b_index(const GemmProblem& p, int64_t batch, int64_t k, int64_t n) {
  return batch * p.b.batch_stride + k * p.b.row_stride + n * p.b.column_stride;
}

float float_sum(const GemmProblem& p, int64_t batch, int64_t m, int64_t n) {
  float total = 0.0f;
  for (int64_t first = 0; first < p.k; first += ncx::kDotBlock) {
    float sum = 0.0f;
    for (int64_t k = first; k < std::min(first + ncx::kDotBlock, p.k); ++k) {
      sum = std::fma(gemm_detail::load_float(p.a.data, p.a.dtype, a_index(p, batch, m, k)),
                     gemm_detail::load_float(p.b.data, p.b.dtype, b_index(p, batch, k, n)), sum);
    }
    total = first == 0 ? sum : total + sum;
  }
  return gemm_detail::round_float(total, p.c.dtype);
}

uint64_t integer_sum(const GemmProblem& p, int64_t batch, int64_t m, int64_t n) {
  uint64_t sum = 0;
  for (int64_t k = 0; k < p.k; ++k) {
    sum += gemm_detail::load_integer(p.a.data, p.a.dtype, a_index(p, batch, m, k)) *
           gemm_detail::load_integer(p.b.data, p.b.dtype, b_index(p, batch, k, n));
  }
  return gemm_detail::wrap_integer(sum, p.c.dtype);
}

// A row of sums, held as the accumulator type.
struct Row {
  std::vector<float> f32;
  std::vector<uint32_t> s32;
  std::vector<uint64_t> s64;
};

const void* compute_row(const GemmProblem& p, int64_t batch, int64_t m, Row& row) {
  const Dtype accumulator = gemm_accumulator(p.c.dtype);
  const auto n = static_cast<size_t>(p.n);
  row.f32.resize(n);
  row.s32.resize(n);
  row.s64.resize(n);
  for (size_t i = 0; i < n; ++i) {
    if (accumulator == Dtype::kF32) {
      row.f32[i] = float_sum(p, batch, m, static_cast<int64_t>(i));
    } else {
      row.s64[i] = integer_sum(p, batch, m, static_cast<int64_t>(i));
      row.s32[i] = static_cast<uint32_t>(row.s64[i]);
    }
  }
  return accumulator == Dtype::kF32   ? static_cast<const void*>(row.f32.data())
         : accumulator == Dtype::kS32 ? static_cast<const void*>(row.s32.data())
                                      : row.s64.data();
}

void store_row(const GemmProblem& p, int64_t batch, int64_t m, const Row& row) {
  for (int64_t n = 0; n < p.n; ++n) {
    const int64_t index = batch * p.c.batch_stride + m * p.c.row_stride + n * p.c.column_stride;
    if (is_floating(p.c.dtype)) {
      gemm_detail::store_float(p.c.data, p.c.dtype, index, row.f32[static_cast<size_t>(n)]);
    } else {
      gemm_detail::store_integer(p.c.data, p.c.dtype, index, row.s64[static_cast<size_t>(n)]);
    }
  }
}

}  // namespace

Status gemm_reference(const GemmProblem& problem) {
  ONRT_RETURN_IF_ERROR(check_gemm(problem));
  Row row;
  for (int64_t batch = 0; batch < problem.batch; ++batch) {
    for (int64_t m = 0; m < problem.m && problem.n > 0; ++m) {
      const void* values = compute_row(problem, batch, m, row);
      if (problem.epilogue == nullptr) {
        store_row(problem, batch, m, row);
        continue;
      }
      problem.epilogue(problem.epilogue_context,
                       GemmTile{batch, m, 0, 1, problem.n, gemm_accumulator(problem.c.dtype),
                                values, problem.n});
    }
  }
  return ok_status();
}

}  // namespace onrt
