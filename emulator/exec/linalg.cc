// SPDX-License-Identifier: Apache-2.0
// Linalg instructions. Matrices are copied into dense f32 working memory, where every step is a
// loop over neighbours; threads share the batch and, in a solve, the columns.
#include <cmath>

#include "emulator/exec/executor.h"
#include "emulator/exec/layout.h"
#include "emulator/exec/micro_plan.h"

namespace onrt {
namespace {

using ncx::View;

constexpr int64_t kColumns = 128;  // of a solve that one thread takes at once

// y -= x * factor. The product is rounded before it is subtracted.
void subtract_scaled(const float* x, float factor, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    const float product = x[i] * factor;
    y[i] = y[i] - product;
  }
}

void divide(float divisor, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = y[i] / divisor;
  }
}

// `columns` holds column j of the lower triangle at [j][j..n).
void factorise(float* columns, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    float* column = columns + k * n;
    column[k] = std::sqrt(column[k]);
    divide(column[k], n - k - 1, column + k + 1);
    for (int64_t j = k + 1; j < n; ++j) {
      subtract_scaled(column + j, column[j], n - j, columns + j * n + j);
    }
  }
}

// x[n][columns]: the right-hand sides, then the solution. a[n][n]: the lower triangle by rows.
void substitute(const float* a, bool unit_diagonal, int64_t n, int64_t columns, float* x) {
  for (int64_t i = 0; i < n; ++i) {
    float* row = x + i * columns;
    for (int64_t j = 0; j < i; ++j) {
      subtract_scaled(x + j * columns, a[i * n + j], columns, row);
    }
    if (!unit_diagonal) {
      divide(a[i * n + i], columns, row);
    }
  }
}

class LinalgExecutor final : public Executor {
 public:
  LinalgExecutor(const ncx::Linalg& op, const ExecutorOptions& options)
      : kernels_(*options.kernels),
        op_(op),
        rank_(op.a.rank),
        solve_(op.kind == ncx::LinalgKind::kTriangularSolve),
        n_(op.a.dims[rank_ - 1]),
        columns_(op.output.dims[rank_ - 1]) {
    batch_ = make_nest({op.a.dims.data(), rank_ - 2},
                       std::vector<Strides>{op.a.strides, op.b.strides, op.output.strides},
                       LoopOrder::kKept);
    strips_ = solve_ ? std::max<int64_t>(1, (columns_ + kColumns - 1) / kColumns) : 1;
  }

  Status execute(const ExecContext& context) const override {
    if (batch_.elements == 0 || n_ == 0 || columns_ == 0) {
      return ok_status();
    }
    const int64_t each = std::min(n_ * n_, int64_t{1} << 40) * std::min(columns_, kColumns) / 4 + 1;
    return for_units(context, batch_.elements * strips_, each, [&](int64_t first, int64_t last) {
      for (int64_t unit = first; unit < last && !context.stop->raised(); ++unit) {
        if (!(solve_ ? solve(context, unit) : decompose(context, unit))) {
          return false;
        }
      }
      return true;
    });
  }

 private:
  const std::byte* matrix(const ExecContext& context, const View& view, size_t number,
                          int64_t batch) const {
    int64_t offset = 0;
    for (int d = batch_.rank - 1; d >= 0 && rank_ > 2; --d) {
      const auto loop = static_cast<size_t>(d);
      offset += batch % batch_.dims[loop] * batch_.strides[number][loop];
      batch /= batch_.dims[loop];
    }
    return context.at(view) + offset * static_cast<int64_t>(dtype_bytes(view.dtype));
  }

  // `n` elements from (i, j) along the view's last dimension, or its last but one.
  void load(const View& view, const std::byte* base, int64_t i, int64_t j, size_t along, int64_t n,
            float* to) const {
    const int64_t offset = i * view.strides[rank_ - 2] + j * view.strides[rank_ - 1];
    kernels_.load_strided[static_cast<size_t>(view.dtype)](
        to, base + offset * static_cast<int64_t>(dtype_bytes(view.dtype)), view.strides[along],
        static_cast<size_t>(n));
  }
  void store(std::byte* base, int64_t i, int64_t j, size_t along, int64_t n, float* from) const {
    const View& view = op_.output;
    const auto type = static_cast<size_t>(view.dtype);
    if (kernels_.settle[type] != nullptr) {
      kernels_.settle[type](from, from, nullptr, nullptr, static_cast<size_t>(n), 0);
    }
    const int64_t offset = i * view.strides[rank_ - 2] + j * view.strides[rank_ - 1];
    kernels_.store_strided[type](base + offset * static_cast<int64_t>(dtype_bytes(view.dtype)),
                                 from, view.strides[along], static_cast<size_t>(n));
  }

  bool decompose(const ExecContext& context, int64_t batch) const {
    auto* columns = reinterpret_cast<float*>(thread_arena(static_cast<size_t>(n_ * n_) * 4));
    if (columns == nullptr) {
      return false;
    }
    const std::byte* a = matrix(context, op_.a, 0, batch);
    for (int64_t j = 0; j < n_; ++j) {
      std::fill_n(columns + j * n_, j, 0.0F);
      load(op_.a, a, j, j, rank_ - 2, n_ - j, columns + j * n_ + j);
    }
    factorise(columns, n_);
    auto* out = const_cast<std::byte*>(matrix(context, op_.output, 2, batch));
    for (int64_t j = 0; j < n_; ++j) {
      store(out, 0, j, rank_ - 2, n_, columns + j * n_);
    }
    return true;
  }

  bool solve(const ExecContext& context, int64_t unit) const {
    const int64_t batch = unit / strips_;
    const int64_t column = unit % strips_ * kColumns;
    const int64_t columns = std::min(kColumns, columns_ - column);
    auto* a = reinterpret_cast<float*>(thread_arena(static_cast<size_t>(n_ * (n_ + columns)) * 4));
    if (a == nullptr) {
      return false;
    }
    float* x = a + n_ * n_;
    const std::byte* from = matrix(context, op_.a, 0, batch);
    const std::byte* b = matrix(context, op_.b, 1, batch);
    for (int64_t i = 0; i < n_; ++i) {
      load(op_.a, from, i, 0, rank_ - 1, i + 1, a + i * n_);
      load(op_.b, b, i, column, rank_ - 1, columns, x + i * columns);
    }
    substitute(a, op_.unit_diagonal != 0, n_, columns, x);
    auto* out = const_cast<std::byte*>(matrix(context, op_.output, 2, batch));
    for (int64_t i = 0; i < n_; ++i) {
      store(out, i, column, rank_ - 1, columns, x + i * columns);
    }
    return true;
  }

  const KernelTable& kernels_;
  const ncx::Linalg op_;
  const size_t rank_;
  const bool solve_;
  const int64_t n_;
  const int64_t columns_;
  int64_t strips_ = 1;
  LoopNest batch_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::Linalg& op, const ExecutorOptions& options) {
  return std::make_unique<LinalgExecutor>(op, options);
}

}  // namespace onrt
