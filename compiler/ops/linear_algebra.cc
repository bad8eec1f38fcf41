// SPDX-License-Identifier: Apache-2.0
// cholesky and triangular-solve: an instruction that knows lower triangles on the left only, and
// views that turn everything else into that. The order of operations is that of ncx::Linalg.
#include <bit>
#include <cmath>

#include "compiler/hir/infer.h"
#include "compiler/lowering/lowerer.h"
#include "compiler/reference/interpreter.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

Status require_square(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& a = context.operand(0);
  const size_t rank = a.rank();
  if (!is_floating(a.dtype) || rank < 2 || a.dims[rank - 1] != a.dims[rank - 2]) {
    return context.wrong(format("operand 0: expected square matrices of floats, found {}",
                                context.text(context.operand_id(0))));
  }
  return ok_status();
}

Status require_flags(const InferContext& context, std::span<const int64_t> flags) {
  for (const int64_t flag : flags) {
    if (flag != 0 && flag != 1) {
      return context.wrong(format("attribute triangle: expected 0 or 1, found {}", flag));
    }
  }
  return ok_status();
}

}  // namespace

// Attribute triangle: lower.
Result<ShapeId> infer_cholesky(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(require_square(context));
  ONRT_ASSIGN_OR_RETURN(const auto flags, context.exactly(AttributeKey::kTriangle, 1));
  ONRT_RETURN_IF_ERROR(require_flags(context, flags));
  return context.operand_id(0);
}

// Attribute triangle: left side, lower, unit diagonal, transpose a (1 no, 2 transposed, 3 adjoint).
Result<ShapeId> infer_triangular_solve(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(require_square(context));
  ONRT_ASSIGN_OR_RETURN(const auto flags, context.exactly(AttributeKey::kTriangle, 4));
  ONRT_RETURN_IF_ERROR(require_flags(context, flags.first(3)));
  if (flags[3] < 1 || flags[3] > 3) {
    return context.wrong(
        format("attribute triangle: expected 1, 2 or 3 as transposition, found {}", flags[3]));
  }
  const Shape& a = context.operand(0);
  const Shape& b = context.operand(1);
  const size_t rank = a.rank();
  bool fits = b.rank() == rank && b.dtype == a.dtype &&
              b.dims[flags[0] != 0 ? rank - 2 : rank - 1] == a.dims[rank - 1];
  for (size_t d = 0; fits && d + 2 < rank; ++d) {
    fits = a.dims[d] == b.dims[d];
  }
  if (!fits) {
    return context.wrong(format(
        "operand 1: expected {} of the system {}, found {}", flags[0] != 0 ? "columns" : "rows",
        context.text(context.operand_id(0)), context.text(context.operand_id(1))));
  }
  return context.operand_id(1);
}

}  // namespace onrt::hir

namespace onrt::reference {
namespace {

using hir::AttributeKey;

float float_of(ncx::Boxed value) { return std::bit_cast<float>(static_cast<uint32_t>(value)); }

// A matrix of a batch, as floats; row and column may be exchanged.
struct Matrix {
  int64_t n, columns;
  std::vector<float> values;
  float& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
};

Matrix read(const Tensor& tensor, int64_t number, bool turned) {
  const int64_t rows = tensor.dims[tensor.dims.size() - 2];
  const int64_t columns = tensor.dims.back();
  Matrix made{turned ? columns : rows, turned ? rows : columns, {}};
  made.values.resize(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      (turned ? made.at(j, i) : made.at(i, j)) =
          float_of(tensor.get((number * rows + i) * columns + j));
    }
  }
  return made;
}

void write(Matrix& matrix, bool turned, int64_t number, Tensor& tensor) {
  const int64_t rows = tensor.dims[tensor.dims.size() - 2];
  const int64_t columns = tensor.dims.back();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const float value = turned ? matrix.at(j, i) : matrix.at(i, j);
      tensor.set((number * rows + i) * columns + j,
                 ncx::settle_boxed(tensor.dtype, std::bit_cast<uint32_t>(value)));
    }
  }
}

int64_t matrices(const Tensor& tensor) {
  const int64_t each = tensor.dims.back() * tensor.dims[tensor.dims.size() - 2];
  return each == 0 ? 0 : tensor.elements() / each;
}

}  // namespace

Status evaluate_cholesky(Operation& operation) {
  const bool upper = operation.ints(AttributeKey::kTriangle)[0] == 0;
  for (int64_t m = 0; m < matrices(operation.operand(0)); ++m) {
    Matrix a = read(operation.operand(0), m, upper);
    Matrix l{a.n, a.n, std::vector<float>(a.values.size(), 0.0F)};
    for (int64_t j = 0; j < a.n; ++j) {
      for (int64_t i = j; i < a.n; ++i) {
        float rest = a.at(i, j);
        for (int64_t k = 0; k < j; ++k) {
          const float product = l.at(i, k) * l.at(j, k);
          rest = rest - product;
        }
        l.at(i, j) = i == j ? std::sqrt(rest) : rest / l.at(j, j);
      }
    }
    write(l, upper, m, operation.result());
  }
  return ok_status();
}

Status evaluate_triangular_solve(Operation& operation) {
  const auto flags = operation.ints(AttributeKey::kTriangle);
  const bool left = flags[0] != 0;
  const bool transposed = flags[3] != 1;
  // x a = b is a^T x^T = b^T.
  const bool turned = transposed == left;
  const bool lower = (flags[1] != 0) != turned;
  for (int64_t m = 0; m < matrices(operation.operand(1)); ++m) {
    Matrix a = read(operation.operand(0), m, turned);
    Matrix x = read(operation.operand(1), m, !left);
    for (int64_t step = 0; step < x.n; ++step) {
      const int64_t i = lower ? step : x.n - 1 - step;
      for (int64_t c = 0; c < x.columns; ++c) {
        for (int64_t done = 0; done < step; ++done) {
          const int64_t j = lower ? done : x.n - 1 - done;
          const float product = a.at(i, j) * x.at(j, c);
          x.at(i, c) = x.at(i, c) - product;
        }
        x.at(i, c) = flags[2] != 0 ? x.at(i, c) : x.at(i, c) / a.at(i, i);
      }
    }
    write(x, !left, m, operation.result());
  }
  return ok_status();
}

}  // namespace onrt::reference

namespace onrt::lowering {
namespace {

using hir::AttributeKey;

Window transposed(const Window& window) {
  Window made = window;
  const size_t rank = window.dims.size();
  std::swap(made.dims[rank - 1], made.dims[rank - 2]);
  std::swap(made.strides[rank - 1], made.strides[rank - 2]);
  return made;
}

// Batch dimensions merged where they can be, so that ranks above the instruction's limit pass.
void add_instruction(Lowerer& lowerer, const Node& node, int32_t index, Kernel made,
                     const Window& result, const Window& seen) {
  made.kind = KernelKind::kLinalg;
  made.origin = node.origin;
  made.writes.push_back(seen);
  std::vector<const Window*> all;
  for (const Window& window : made.reads) {
    all.push_back(&window);
  }
  all.push_back(&made.writes[0]);
  const size_t batch = seen.dims.size() - 2;
  std::vector<Run> runs = common_runs(all, seen.dims, 0, batch, 0);
  runs.push_back({batch, 1});
  runs.push_back({batch + 1, 1});
  for (Window& window : made.reads) {
    window = merge(window, runs);
  }
  made.writes[0] = merge(made.writes[0], runs);
  const int32_t number = lowerer.add_kernel(KernelKind::kLinalg, node);
  lowerer.kernel(number) = std::move(made);
  lowerer.set_window({index, 0}, result, number);
}

}  // namespace

Status lower_cholesky(Lowerer& lowerer, const Node& node, int32_t index) {
  const bool lower = node.ints(AttributeKey::kTriangle)[0] != 0;
  const Window a = lowerer.window(node.operands[0]);
  const Window result = lowerer.new_buffer(node.results[0]);
  Kernel made;
  made.linalg = ncx::LinalgKind::kCholesky;
  made.reads.push_back(lower ? a : transposed(a));
  add_instruction(lowerer, node, index, std::move(made), result,
                  lower ? result : transposed(result));
  return ok_status();
}

Status lower_triangular_solve(Lowerer& lowerer, const Node& node, int32_t index) {
  const auto flags = node.ints(AttributeKey::kTriangle);
  const bool left = flags[0] != 0;
  const bool turned = (flags[3] != 1) == left;  // x a = b is a^T x^T = b^T
  Window a = lowerer.window(node.operands[0]);
  Window b = lowerer.window(node.operands[1]);
  const Window result = lowerer.new_buffer(node.results[0]);
  Window seen = result;
  const auto rows = static_cast<int64_t>(a.dims.size()) - 2;
  const int64_t both[] = {rows, rows + 1};
  if (!left) {
    b = transposed(b);
    seen = transposed(seen);
  }
  a = turned ? transposed(a) : a;
  if ((flags[1] != 0) == turned) {  // upper: backwards it is lower
    a = reverse(a, both);
    b = reverse(b, {both, 1});
    seen = reverse(seen, {both, 1});
  }
  Kernel made;
  made.linalg = ncx::LinalgKind::kTriangularSolve;
  made.unit_diagonal = flags[2] != 0;
  made.reads = {a, b};
  add_instruction(lowerer, node, index, std::move(made), result, seen);
  return ok_status();
}

}  // namespace onrt::lowering
