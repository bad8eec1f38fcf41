// SPDX-License-Identifier: Apache-2.0
// Order and running folds. A NaN is larger than every number, as in torch.
#include <limits>

#include "python/torch_neuronx/csrc/lower/lowering.h"
#include "python/torch_neuronx/csrc/lower/scan.h"

namespace tnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

struct Sorted {
  Value values;
  Value indices;
};

Sorted sorted(Graph& g, const Value& x, int64_t dim, bool descending) {
  if (x.rank() == 0) {
    return {x, g.zeros(kS64, {})};
  }
  const Value keys = x.type == kPred ? g.convert(x, kU8) : x;
  const auto order = g.sort({keys, g.iota(kS64, x.dims, dim)}, dim, descending);
  return {g.convert(order[0], x.type), order[1]};
}

std::vector<Value> sort(Graph& g, const Call& call, size_t dim, size_t descending) {
  const Value& x = call.tensor(0);
  const Sorted s = sorted(g, x, wrap_dim(call.integer(dim), x.rank()), call.flag(descending));
  return {s.values, s.indices};
}

// Floats in an order of which the total order is one: zeros of one sign, NaNs above all.
Value in_total_order(Graph& g, const Value& x) {
  if (!is_float(x.type)) {
    return x.type == kPred ? g.convert(x, kU8) : x;
  }
  const Value zero = g.like(x, 0);
  const Value nan = g.like(x, std::numeric_limits<double>::quiet_NaN());
  return g.select(g.is_nan(x), nan, g.select(g.compare("EQ", x, zero), zero, x));
}

std::vector<Value> first_of_order(Graph& g, const Call& call) {  // x, k, dim, largest, sorted
  const Value& x = call.tensor(0);
  if (x.rank() == 0) {
    return {x, g.zeros(kS64, {})};
  }
  const int64_t dim = wrap_dim(call.integer(2), x.rank());
  const Value rows = g.swap(x, dim, -1);
  const Value order = g.topk(in_total_order(g, rows), call.integer(1), call.flag(3)).second;
  const Value positions = g.convert(order, kS64);
  const Value values = g.take_along(rows, positions, -1);
  return {g.swap(values, dim, -1), g.swap(positions, dim, -1)};
}

// Without the dimension, or with a size of 1.
Value dropped(Graph& g, const Value& x, int64_t dim, bool keep) {
  return keep ? x : g.squeeze(x, dim);
}

std::vector<Value> kth(Graph& g, const Call& call) {  // x, k, dim, keepdim
  const Value& x = call.tensor(0);
  const int64_t dim = wrap_dim(call.integer(2), x.rank());
  if (x.rank() == 0) {
    return {x, g.zeros(kS64, {})};
  }
  const Sorted s = sorted(g, x, dim, false);
  const bool keep = call.flag(3);
  return {dropped(g, g.narrow(s.values, dim, call.integer(1) - 1, 1), dim, keep),
          dropped(g, g.narrow(s.indices, dim, call.integer(1) - 1, 1), dim, keep)};
}

// The lower of the two in the middle; with `skip` without NaNs, else the first NaN if there is one.
Sorted middle(Graph& g, const Value& x, int64_t dim, bool skip) {
  const Sorted s = sorted(g, x, dim, false);
  const int64_t n = x.dims[at(dim)];
  if (!is_float(x.type)) {
    return {g.narrow(s.values, dim, (n - 1) / 2, 1), g.narrow(s.indices, dim, (n - 1) / 2, 1)};
  }
  const Value numbers = g.sum(g.convert(g.compare("EQ", x, x), kS64), {dim}, true);
  const Value one = g.integer(kS64, 1);
  const Value zero = g.integer(kS64, 0);
  Value place = g.max(g.div(g.sub(numbers, one), g.integer(kS64, 2)), zero);
  if (!skip) {
    place = g.select(g.compare("LT", numbers, g.integer(kS64, n)), numbers, place);
  }
  return {g.take_along(s.values, place, dim), g.take_along(s.indices, place, dim)};
}

std::vector<Value> median(Graph& g, const Call& call, bool skip) {
  const Value flat = g.reshape(call.tensor(0), {call.tensor(0).count()});
  if (flat.count() == 0) {
    throw Unsupported("a median of nothing");
  }
  return {g.reshape(middle(g, flat, 0, skip).values, {})};
}

std::vector<Value> median_dim(Graph& g, const Call& call, bool skip) {  // x, dim, keepdim
  const Value& x = call.tensor(0);
  if (x.rank() == 0) {
    return {x, g.zeros(kS64, {})};
  }
  const int64_t dim = wrap_dim(call.integer(1), x.rank());
  const Sorted s = middle(g, x, dim, skip);
  return {dropped(g, s.values, dim, call.flag(2)), dropped(g, s.indices, dim, call.flag(2))};
}

}  // namespace

TNX_LOWER("sort", { return sort(g, call, 1, 2); })
TNX_LOWER("sort.stable", { return sort(g, call, 2, 3); })
TNX_LOWER("topk", { return first_of_order(g, call); })
TNX_LOWER("kthvalue", { return kth(g, call); })
TNX_LOWER_ROW("median", (Row{.own_shapes = true}), { return median(g, call, false); })
TNX_LOWER_ROW("nanmedian", (Row{.own_shapes = true}), { return median(g, call, true); })
TNX_LOWER("median.dim", { return median_dim(g, call, false); })
TNX_LOWER("nanmedian.dim", { return median_dim(g, call, true); })

// ---- running folds
// --------------------------------------------------------------------------------

namespace {

std::vector<Value> running(Graph& g, const Call& call, const char* opcode, double init) {
  const Type type = compute_type(call.out().type);
  const Value x = g.convert(call.tensor(0), type);
  if (x.rank() == 0) {
    return {x};
  }
  return {scan(g, opcode, x, wrap_dim(call.integer(1), x.rank()), g.constant(type, init))};
}

// Elements moved on by `step` along dim, the others `fill`.
Value shifted(Graph& g, const Value& x, int64_t dim, int64_t step, const Value& fill) {
  Dims low(x.dims.size(), 0);
  Dims high(x.dims.size(), 0);
  low[at(dim)] = step;
  high[at(dim)] = -step;
  return g.pad(x, fill, low, high);
}

// Value and position of the last greatest (least) element so far; a NaN stays.
std::vector<Value> running_extreme(Graph& g, const Call& call, bool largest) {
  const Value given = call.tensor(0);
  if (given.rank() == 0) {
    return {given, g.zeros(kS64, {})};
  }
  const int64_t dim = wrap_dim(call.integer(3), given.rank());
  Value best = given.type == kPred ? g.convert(given, kU8) : given;
  Value position = g.iota(kS64, given.dims, dim);
  for (int64_t step = 1; step < given.dims[at(dim)]; step *= 2) {
    const Value fill = largest ? g.lowest(best.type) : g.highest(best.type);
    const Value before = shifted(g, best, dim, step, fill);
    const Value at_before = shifted(g, position, dim, step, g.integer(kS64, 0));
    Value mine = g.compare(largest ? "GE" : "LE", best, before);
    if (is_float(best.type)) {
      mine = g.binary("or", mine, g.is_nan(best));
    }
    best = g.select(mine, best, before);
    position = g.select(mine, position, at_before);
  }
  return {best, position};
}

// log(exp(a) + exp(b)), of infinities too.
Value log_add_exp(Graph& g, const Value& a, const Value& b) {
  const Value high = g.max(a, b);
  const Value distance = g.neg(g.unary("abs", g.sub(a, b)));
  const Value sum = g.add(high, g.unary("log-plus-one", g.exp(distance)));
  const Value same = g.binary("and", g.compare("EQ", a, b), g.logical_not(g.is_finite(a)));
  return g.select(same, a, sum);
}

std::vector<Value> running_log_sum(Graph& g, const Call& call) {  // x, dim
  const Type type = compute_type(call.out().type);
  Value x = g.convert(call.tensor(0), type);
  if (x.rank() == 0) {
    return {x};
  }
  const int64_t dim = wrap_dim(call.integer(1), x.rank());
  for (int64_t step = 1; step < x.dims[at(dim)]; step *= 2) {
    x = log_add_exp(g, x, shifted(g, x, dim, step, g.lowest(type)));
  }
  return {x};
}

}  // namespace

TNX_LOWER("cumsum", { return running(g, call, "add", 0); })
TNX_LOWER("cumprod", { return running(g, call, "multiply", 1); })
TNX_LOWER("_cummax_helper", { return running_extreme(g, call, true); })
TNX_LOWER("_cummin_helper", { return running_extreme(g, call, false); })
TNX_LOWER("logcumsumexp", { return running_log_sum(g, call); })
TNX_LOWER("_logcumsumexp", { return running_log_sum(g, call); })

}  // namespace tnx
