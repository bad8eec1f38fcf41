// SPDX-License-Identifier: Apache-2.0
// Products of matrices and triangular systems. Narrow floats are multiplied as they are and summed
// in f32; the result is rounded once.
#include "python/torch_neuronx/csrc/lower/reduce.h"

namespace tnx {
namespace {

// Where two operands meet.
struct Contract {
  Dims a;
  Dims b;
  Dims a_batch;
  Dims b_batch;
};

Value product(Graph& g, const Value& a, const Value& b, const Contract& c) {
  if (a.type == kPred) {
    throw Unsupported("a product of bool matrices");
  }
  const Type type = compute_type(a.type);
  if (a.count() != 0 && b.count() != 0) {
    return g.dot(a, b, c.a, c.b, c.a_batch, c.b_batch, type);
  }
  // Nothing is summed: 0, in the shape of the free dimensions.
  Dims dims;
  for (const int64_t d : c.a_batch) {
    dims.push_back(a.dims[static_cast<size_t>(d)]);
  }
  const auto add_free = [&](const Value& x, const Dims& contract, const Dims& batch) {
    for (int64_t d = 0; d < x.rank(); ++d) {
      bool used = false;
      for (const Dims* list : {&contract, &batch}) {
        for (const int64_t at : *list) {
          used = used || at == d;
        }
      }
      if (!used) {
        dims.push_back(x.dims[static_cast<size_t>(d)]);
      }
    }
  };
  add_free(a, c.a, c.a_batch);
  add_free(b, c.b, c.b_batch);
  return g.zeros(type, dims);
}

// [m, k] x [k, n], or with equal batches before.
Value matrix_product(Graph& g, const Value& a, const Value& b) {
  const Dims batch = dim_range(0, a.rank() - 2);
  return product(g, a, b, {{a.rank() - 1}, {b.rank() - 2}, batch, batch});
}

bool is_one(const Call& call, size_t i) { return call.number(i) == 1; }

// beta * self + alpha * x; self isn't read if beta is 0, so that its NaNs don't count. Arguments:
// self, two factors, beta, alpha.
Value blend(Graph& g, const Call& call, Value x) {
  if (!is_one(call, 4)) {
    x = g.mul(x, call.scalar(g, 4, x.type));
  }
  if (call.number(3) == 0) {
    return x;
  }
  Value self = g.convert(call.tensor(0), x.type);
  if (!is_one(call, 3)) {
    self = g.mul(self, call.scalar(g, 3, x.type));
  }
  return g.add(x, g.expand(self, x.dims));
}

Value add_product(Graph& g, const Call& call) {
  return blend(g, call, matrix_product(g, call.tensor(1), call.tensor(2)));
}

}  // namespace

TNX_LOWER("mm", { return {matrix_product(g, call.tensor(0), call.tensor(1))}; })
TNX_LOWER("bmm", { return {matrix_product(g, call.tensor(0), call.tensor(1))}; })
TNX_LOWER("mv", { return {product(g, call.tensor(0), call.tensor(1), {{1}, {0}, {}, {}})}; })
TNX_LOWER("dot", { return {product(g, call.tensor(0), call.tensor(1), {{0}, {0}, {}, {}})}; })
TNX_LOWER("vdot", { return {product(g, call.tensor(0), call.tensor(1), {{0}, {0}, {}, {}})}; })

#define TNX_BLEND(name, ...) TNX_LOWER_ROW(name, (Row{.known = {3, 4}}), __VA_ARGS__)
TNX_BLEND("addmm", { return {add_product(g, call)}; })
TNX_BLEND("baddbmm", { return {add_product(g, call)}; })
TNX_BLEND("addmv", {
  return {blend(g, call, product(g, call.tensor(1), call.tensor(2), {{1}, {0}, {}, {}}))};
})
TNX_BLEND("addbmm", {
  return {blend(g, call, product(g, call.tensor(1), call.tensor(2), {{0, 2}, {0, 1}, {}, {}}))};
})
TNX_BLEND("addr", {
  const Type type = call.out().type == kPred ? kPred : compute_type(call.out().type);
  if (type == kPred) {
    throw Unsupported("a product of bool vectors");
  }
  const Value a = call.operand(g, 1, type);
  const Value b = call.operand(g, 2, type);
  return {blend(g, call, g.mul(g.reshape(a, {a.count(), 1}), b))};
})
TNX_BLEND("_addmm_activation", {
  const Value x = add_product(g, call);
  if (!call.flag(5)) {
    return {g.max(x, g.like(x, 0))};
  }
  const Value half = g.like(x, 0.5);
  const Value inner = g.unary("erf", g.mul(x, g.like(x, 0.70710678118654752440)));
  return {g.mul(g.mul(x, half), g.add(g.like(x, 1), inner))};
})

// ---- triangular systems -------------------------------------------------------------------------

TNX_LOWER("linalg_solve_triangular", {  // A, B, upper, left, unitriangular
  const Type type = compute_type(call.out().type);
  Dims a_dims = call.out().dims;
  const Value a = g.convert(call.tensor(0), type);
  const int64_t n = a.dims.back();
  a_dims[a_dims.size() - 2] = n;
  a_dims[a_dims.size() - 1] = n;
  return {g.triangular_solve(g.expand(a, a_dims),
                             g.expand(g.convert(call.tensor(1), type), call.out().dims),
                             call.flag(3), !call.flag(2), call.flag(4), false)};
})

// ---- products per group -------------------------------------------------------------------------

namespace {

// Rows 0 .. offsets[groups - 1] of a matrix belong to groups one after another; offsets hold each
// group's end. The rows are cut into blocks of `size`, each within one group, so that one batched
// product serves all groups: at most rows / size + groups blocks are needed.
struct Blocks {
  int64_t groups = 0;
  int64_t rows = 0;
  int64_t size = 0;
  int64_t count = 0;
  Value starts;        // [groups], first row
  Value ends;          // [groups], the row after the last
  Value first_blocks;  // [groups]
  Value group;         // [count]: of each block
  Value row;           // [count, size]: row numbers, kept in range
  Value inside;        // [count, size]: whether that row belongs to the block
};

// The number of elements of the ascending `sorted` that are <= x.
Value count_upto(Graph& g, const Value& sorted, const Value& x) {
  const Value reached =
      g.compare("LE", g.reshape(sorted, {1, sorted.count()}), g.reshape(x, {x.count(), 1}));
  return g.sum(g.convert(reached, kS64), {1});
}

Value kept_below(Graph& g, const Value& x, int64_t limit) {
  const Value most = g.broadcast(g.integer(kS64, std::max<int64_t>(limit - 1, 0)), x.dims, {});
  return g.min(x, most);
}

Value number(Graph& g, const Value& like, int64_t value) {
  return g.broadcast(g.integer(kS64, value), like.dims, {});
}

Blocks blocks_of(Graph& g, const Value& offsets, int64_t rows) {
  Blocks b;
  b.groups = offsets.count();
  b.rows = rows;
  b.size = std::max<int64_t>(1, (rows + b.groups - 1) / b.groups);
  b.count = (rows + b.size - 1) / b.size + b.groups;
  b.ends = g.convert(offsets, kS64);
  b.starts = g.concat({g.zeros(kS64, {1}), g.narrow(b.ends, 0, 0, b.groups - 1)}, 0);
  if (b.groups == 1) {
    b.starts = g.zeros(kS64, {1});
  }
  const Value length = g.sub(b.ends, b.starts);
  const Value blocks =
      g.div(g.add(length, number(g, length, b.size - 1)), number(g, length, b.size));
  // Sums up to each group, by a triangle of ones: groups are few.
  const Dims square = {b.groups, b.groups};
  const Value up_to = g.compare("GE", g.iota(kS64, square, 0), g.iota(kS64, square, 1));
  const Value last_blocks =
      g.sum(g.select(up_to, g.broadcast(blocks, square, {1}), g.zeros(kS64, square)), {1});
  b.first_blocks = g.sub(last_blocks, blocks);
  const Value block = g.iota(kS64, {b.count}, 0);
  b.group = kept_below(g, count_upto(g, last_blocks, block), b.groups);
  const Value within = g.sub(block, g.index_select(b.first_blocks, b.group, 0));
  const Value base =
      g.add(g.index_select(b.starts, b.group, 0), g.mul(within, number(g, within, b.size)));
  const Dims grid = {b.count, b.size};
  const Value row = g.add(g.broadcast(base, grid, {0}), g.iota(kS64, grid, 1));
  b.inside = g.compare("LT", row, g.broadcast(g.index_select(b.ends, b.group, 0), grid, {0}));
  b.row = kept_below(g, row, rows);
  return b;
}

// x's rows by block: [count, size, columns]; rows of no block are 0.
Value rows_by_block(Graph& g, const Blocks& b, const Value& x) {
  const Dims dims = {b.count, b.size, x.dims[1]};
  const Value rows = g.index_select(x, g.reshape(b.row, {b.count * b.size}), 0);
  return g.select(g.broadcast(b.inside, dims, {0, 1}), g.reshape(rows, dims),
                  g.zeros(x.type, dims));
}

// a [rows, k], b [groups, k, n] -> [rows, n]: each row by the matrix of its group.
Value rows_by_matrices(Graph& g, const Value& a, const Value& b, const Value& offsets) {
  const Blocks blocks = blocks_of(g, offsets, a.dims[0]);
  const Value y =
      matrix_product(g, rows_by_block(g, blocks, a), g.index_select(b, blocks.group, 0));
  const Value row = g.iota(kS64, {blocks.rows}, 0);
  const Value reached = count_upto(g, blocks.ends, row);
  const Value group = kept_below(g, reached, blocks.groups);
  const Value at =
      g.add(g.sub(row, g.index_select(blocks.starts, group, 0)),
            g.mul(g.index_select(blocks.first_blocks, group, 0), number(g, row, blocks.size)));
  const int64_t n = b.dims[2];
  const Value flat = g.reshape(y, {blocks.count * blocks.size, n});
  const Value picked = g.index_select(flat, kept_below(g, at, blocks.count * blocks.size), 0);
  const Value some = g.compare("LT", reached, number(g, row, blocks.groups));
  return g.select(g.broadcast(some, picked.dims, {0}), picked, g.like(picked, 0));
}

// a [m, k], b [k, n], groups along k -> [groups, m, n].
Value products_of_groups(Graph& g, const Value& a, const Value& b, const Value& offsets) {
  const Blocks blocks = blocks_of(g, offsets, b.dims[0]);
  const Value left = rows_by_block(g, blocks, g.transpose(a, {1, 0}));  // [count, size, m]
  const Value right = rows_by_block(g, blocks, b);
  const Value y = product(g, left, right, {{1}, {1}, {0}, {0}});
  Graph::GatherDims dims;
  dims.offset = {1, 2};
  dims.collapsed = {0};
  dims.index_map = {0};
  dims.index_vector = 1;
  return g.scatter("add", g.zeros(y.type, {blocks.groups, y.dims[1], y.dims[2]}),
                   g.reshape(blocks.group, {blocks.count, 1}), y, dims);
}

void expect(bool holds, const std::string& what) {
  if (!holds) {
    throw Error("_grouped_mm: " + what);
  }
}

// torch's meta kernel knows bfloat16 only, as some GPUs do: these are the checks of the CPU kernel.
void check_grouped(const Call& call) {
  const Value& a = call.tensor(0);
  const Value& b = call.tensor(1);
  expect(a.rank() == 2 || a.rank() == 3, "mat_a must be 2D or 3D");
  expect(b.rank() == 2 || b.rank() == 3, "mat_b must be 2D or 3D");
  expect(a.type == b.type, "mat_a and mat_b must have the same type");
  expect(a.dims.back() == b.dims[b.dims.size() - 2],
         "contraction dimension of mat_a and mat_b must match, got " +
             std::to_string(a.dims.back()) + " and " + std::to_string(b.dims[b.dims.size() - 2]));
  const bool wanted = a.rank() == 2 || b.rank() == 2;
  expect(call.has(2) == wanted, "offs must be given for 2D operands and for those only");
  if (wanted) {
    const Value& offsets = call.tensor(2);
    expect(offsets.rank() == 1 && offsets.type == kS32, "offs must be 1D of int32");
    const int64_t matrices = a.rank() == 3 ? a.dims[0] : b.rank() == 3 ? b.dims[0] : -1;
    expect(matrices < 0 || offsets.count() == matrices,
           "offs must have as many elements as there are matrices");
  } else {
    expect(a.dims[0] == b.dims[0], "batched operands must have the same batch");
  }
}

Dims grouped_dims(const Call& call) {
  const Value& a = call.tensor(0);
  const Value& b = call.tensor(1);
  const int64_t m = a.dims[a.dims.size() - 2];
  const int64_t n = b.dims.back();
  if (a.rank() == 2 && b.rank() == 2) {
    return {call.tensor(2).count(), m, n};
  }
  return a.rank() == 3 && b.rank() == 3 ? Dims{a.dims[0], m, n} : Dims{m, n};
}

Value grouped_product(Graph& g, const Call& call) {
  const Value& a = call.tensor(0);
  const Value& b = call.tensor(1);
  if (a.count() == 0 || b.count() == 0 || (call.has(2) && call.tensor(2).count() == 0)) {
    return g.zeros(compute_type(a.type), grouped_dims(call));
  }
  if (a.rank() == 3 && b.rank() == 3) {
    return matrix_product(g, a, b);
  }
  const Value& offsets = call.tensor(2);
  if (a.rank() == 2 && b.rank() == 3) {
    return rows_by_matrices(g, a, b, offsets);
  }
  if (a.rank() == 3) {  // columns of b in groups: the same, transposed
    const Value y = rows_by_matrices(g, g.transpose(b, {1, 0}), g.swap(a, 1, 2), offsets);
    return g.transpose(y, {1, 0});
  }
  return products_of_groups(g, a, b, offsets);
}

// The type that out_dtype, a number of torch's ScalarType, names.
Type type_of_number(int64_t number) {
  switch (number) {
    case 5:
      return kF16;
    case 6:
      return kF32;
    case 15:
      return kBF16;
    default:
      throw Unsupported("_grouped_mm: this out_dtype");
  }
}

}  // namespace

TNX_LOWER_ROW("_grouped_mm", (Row{.own_shapes = true}), {  // self, mat2, offs, bias, out_dtype
  check_grouped(call);
  Value y = grouped_product(g, call);
  if (call.has(3)) {
    y = g.add(y, call.operand(g, 3, y.type));
  }
  return {g.convert(y, call.has(4) ? type_of_number(call.integer(4)) : call.tensor(0).type)};
})

}  // namespace tnx
