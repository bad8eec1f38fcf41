// SPDX-License-Identifier: Apache-2.0
// Reductions: sums, extremes, logic, moments and norms.
#include "python/torch_neuronx/csrc/lower/reduce.h"

#include <cmath>
#include <numeric>

namespace tnx {

Value fold(Graph& g, const char* opcode, const Value& x, const Dims& dims, bool keep) {
  if (x.count() != 0) {
    return g.reduce(opcode, x, dims, keep);
  }
  Dims out;
  for (int64_t d = 0; d < x.rank(); ++d) {
    bool reduced = false;
    for (const int64_t dim : dims) {
      reduced = reduced || dim == d;
    }
    if (!reduced) {
      out.push_back(x.dims[static_cast<size_t>(d)]);
    } else if (keep) {
      out.push_back(1);
    }
  }
  const std::string name = opcode;
  if (name == "maximum" || name == "minimum") {
    return g.broadcast(name == "maximum" ? g.lowest(x.type) : g.highest(x.type), out, {});
  }
  return g.full(x.type, out, name == "multiply" || name == "and" ? 1 : 0);
}

Value mean_of(Graph& g, const Value& x, const Dims& dims, bool keep) {
  const Value sum = fold(g, "add", x, dims, keep);
  return g.div(sum, g.like(sum, static_cast<double>(reduced_count(x, dims))));
}

Value variance_of(Graph& g, const Value& x, const Value& center, const Dims& dims, bool keep) {
  const Value away = g.sub(x, center);
  return mean_of(g, g.mul(away, away), dims, keep);
}

Dims dim_range(int64_t from, int64_t to) {
  Dims dims(static_cast<size_t>(std::max<int64_t>(to - from, 0)));
  std::iota(dims.begin(), dims.end(), from);
  return dims;
}

namespace {

// Dimensions given by argument i: a list, a number, or nothing, which means all as does no element.
Dims dims_of(const Call& call, size_t i, const Value& x) {
  if (!call.has(i)) {
    return all_dims(x);
  }
  const Dims given = call.is_number(i) ? Dims{call.integer(i)} : call.ints(i);
  return wrap_dims(x, given);
}

// The input in the type of the result (rounded to it, as torch does), ready to be summed.
Value summand(Graph& g, const Call& call) {
  const Type type = call.out().type;
  return g.convert(g.convert(call.tensor(0), type), compute_type(type));
}

// keepdim has no say in the elements: the result takes the shape that torch gives.
std::vector<Value> shaped(Graph& g, const Call& call, const Value& x) {
  return {g.reshape(x, call.out().dims)};
}

std::vector<Value> sum(Graph& g, const Call& call) {
  const Value x = summand(g, call);
  return shaped(g, call, fold(g, "add", x, dims_of(call, 1, x)));
}

std::vector<Value> mean(Graph& g, const Call& call) {
  const Value x = summand(g, call);
  return shaped(g, call, mean_of(g, x, dims_of(call, 1, x)));
}

std::vector<Value> product(Graph& g, const Call& call, bool all) {
  const Value x = summand(g, call);
  return shaped(g, call, fold(g, "multiply", x, all ? all_dims(x) : dims_of(call, 1, x)));
}

Value extreme_value(Graph& g, const Value& x, const Dims& dims, bool largest) {
  if (x.type == kPred) {
    return fold(g, largest ? "or" : "and", x, dims);
  }
  const Value y = g.convert(x, compute_type(x.type));
  return fold(g, largest ? "maximum" : "minimum", y, dims);
}

}  // namespace

TNX_LOWER("sum", {
  const Value x = summand(g, call);
  return {fold(g, "add", x, all_dims(x))};
})
TNX_LOWER("sum.dim_IntList", { return sum(g, call); })
TNX_LOWER("nansum", {
  const Value x = summand(g, call);
  const Value numbers = is_float(x.type) ? g.select(g.is_nan(x), g.like(x, 0), x) : x;
  return shaped(g, call, fold(g, "add", numbers, dims_of(call, 1, x)));
})
TNX_LOWER("mean", {
  const Value x = summand(g, call);
  return {mean_of(g, x, all_dims(x))};
})
TNX_LOWER("mean.dim", { return mean(g, call); })
TNX_LOWER("prod", { return product(g, call, true); })
TNX_LOWER("prod.dim_int", { return product(g, call, false); })

// ---- extremes -----------------------------------------------------------------------------------

#define TNX_EXTREME(name, argument, largest)                                          \
  TNX_LOWER(name, {                                                                   \
    const Value& x = call.tensor(0);                                                  \
    return shaped(g, call, extreme_value(g, x, dims_of(call, argument, x), largest)); \
  })
TNX_EXTREME("amax", 1, true)
TNX_EXTREME("amin", 1, false)
#define TNX_EXTREME_OF_ALL(name, largest)                                               \
  TNX_LOWER(name, {                                                                     \
    const Value& x = call.tensor(0);                                                    \
    if (x.count() == 0) { /* torch's meta kernel doesn't look */                        \
      throw Error(name                                                                  \
                  "(): Expected reduction dim to be specified for input.numel() == 0. " \
                  "Specify the reduction dim with the 'dim' argument.");                \
    }                                                                                   \
    return {extreme_value(g, x, all_dims(x), largest)};                                 \
  })
TNX_EXTREME_OF_ALL("max", true)
TNX_EXTREME_OF_ALL("min", false)
TNX_LOWER("aminmax", {
  const Value& x = call.tensor(0);
  const Dims dims = dims_of(call, 1, x);
  return {g.reshape(extreme_value(g, x, dims, false), call.out(0).dims),
          g.reshape(extreme_value(g, x, dims, true), call.out(1).dims)};
})

namespace {

// Value and position of the extreme along dim; without one, of the flattened input.
std::pair<Value, Value> extreme_at(Graph& g, const Call& call, bool largest) {
  Value x = call.tensor(0);
  x = g.convert(x, x.type == kPred ? kU8 : compute_type(x.type));
  if (!call.has(1) || x.rank() == 0) {
    return g.extreme(largest, g.reshape(x, {x.count()}), 0);
  }
  const int64_t dim = wrap_dim(call.integer(1), x.rank());
  if (x.dims[static_cast<size_t>(dim)] == 1) {
    Dims out = x.dims;
    out.erase(out.begin() + dim);
    return {g.reshape(x, out), g.zeros(kS64, out)};
  }
  return g.extreme(largest, x, dim);
}

std::vector<Value> extreme_pair(Graph& g, const Call& call, bool largest) {
  const auto [value, position] = extreme_at(g, call, largest);
  return {g.reshape(value, call.out(0).dims), g.reshape(position, call.out(1).dims)};
}

}  // namespace

TNX_LOWER("max.dim", { return extreme_pair(g, call, true); })
TNX_LOWER("min.dim", { return extreme_pair(g, call, false); })
TNX_LOWER("argmax", { return shaped(g, call, extreme_at(g, call, true).second); })
TNX_LOWER("argmin", { return shaped(g, call, extreme_at(g, call, false).second); })

// ---- logic --------------------------------------------------------------------------------------

namespace {

std::vector<Value> logic(Graph& g, const Call& call, const char* opcode) {
  const Value x = g.convert(call.tensor(0), kPred);
  Dims dims = dims_of(call, 1, x);
  // An empty list of dims joins nothing, unlike in other reductions.
  if (call.has(1) && !call.is_number(1) && call.ints(1).empty() && call.out().dims == x.dims) {
    dims.clear();
  }
  return shaped(g, call, fold(g, opcode, x, dims));
}

}  // namespace

TNX_LOWER("any", { return logic(g, call, "or"); })
TNX_LOWER("any.dim", { return logic(g, call, "or"); })
TNX_LOWER("any.dims", { return logic(g, call, "or"); })
TNX_LOWER("all", { return logic(g, call, "and"); })
TNX_LOWER("all.dim", { return logic(g, call, "and"); })
TNX_LOWER("all.dims", { return logic(g, call, "and"); })

namespace {

std::vector<Value> count_nonzero(Graph& g, const Call& call) {
  const Value x = g.convert(g.convert(call.tensor(0), kPred), kS64);
  return shaped(g, call, fold(g, "add", x, dims_of(call, 1, x)));
}

}  // namespace

TNX_LOWER("count_nonzero", { return count_nonzero(g, call); })
TNX_LOWER("count_nonzero.dim_IntList", { return count_nonzero(g, call); })

// ---- moments ------------------------------------------------------------------------------------

namespace {

// Variance, or its root, and the mean, by two passes. x, dim, correction, keepdim.
std::vector<Value> moments(Graph& g, const Call& call, bool root, bool with_mean) {
  const Value x = g.convert(call.tensor(0), compute_type(call.tensor(0).type));
  const Dims dims = dims_of(call, 1, x);
  const double correction = call.has(2) ? call.number(2) : 1;
  const Value mean = mean_of(g, x, dims, true);
  const Value away = g.sub(x, mean);
  const Value sum = fold(g, "add", g.mul(away, away), dims);
  const double free = static_cast<double>(reduced_count(x, dims)) - correction;
  Value result = g.div(sum, g.like(sum, std::max(free, 0.0)));
  result = g.reshape(root ? g.sqrt(result) : result, call.out(0).dims);
  if (!with_mean) {
    return {result};
  }
  return {result, g.reshape(mean, call.out(1).dims)};
}

}  // namespace

#define TNX_MOMENTS(name, root, with_mean) \
  TNX_LOWER_ROW(name, (Row{.known = {2}}), { return moments(g, call, root, with_mean); })
TNX_MOMENTS("var.correction", false, false)
TNX_MOMENTS("std.correction", true, false)
TNX_MOMENTS("var_mean.correction", false, true)
TNX_MOMENTS("std_mean.correction", true, true)

// ---- norms --------------------------------------------------------------------------------------

namespace {

Value norm_of(Graph& g, const Value& x, const Dims& dims, double p) {
  const Value size = is_float(x.type) ? g.unary("abs", x) : x;
  if (std::isinf(p)) {
    return fold(g, p > 0 ? "maximum" : "minimum", x.count() == 0 ? g.zeros(x.type, x.dims) : size,
                dims);
  }
  if (p == 0) {
    return fold(g, "add", g.convert(g.compare("NE", x, g.like(x, 0)), x.type), dims);
  }
  if (p == 1) {
    return fold(g, "add", size, dims);
  }
  if (p == 2) {
    return g.sqrt(fold(g, "add", g.mul(x, x), dims));
  }
  const Value sum = fold(g, "add", g.binary("power", size, g.like(size, p)), dims);
  return g.binary("power", sum, g.like(sum, 1 / p));
}

std::vector<Value> norm(Graph& g, const Call& call, size_t dim) {
  const Value x = summand(g, call);
  const double p = call.has(1) ? call.number(1) : 2;
  return shaped(g, call, norm_of(g, x, dim > 0 ? dims_of(call, dim, x) : all_dims(x), p));
}

}  // namespace

#define TNX_NORM(name, dim) TNX_LOWER_ROW(name, (Row{.known = {1}}), { return norm(g, call, dim); })
TNX_NORM("linalg_vector_norm", 2)
TNX_NORM("norm.Scalar", 0)
TNX_NORM("norm.ScalarOpt_dtype", 0)
TNX_NORM("norm.ScalarOpt_dim", 2)
TNX_NORM("norm.ScalarOpt_dim_dtype", 2)

TNX_LOWER("logsumexp", {
  const Value x = g.convert(call.tensor(0), compute_type(call.out().type));
  const Dims dims = dims_of(call, 1, x);
  const Value most = fold(g, "maximum", x, dims, true);
  // An infinite maximum would make NaNs of differences.
  const Value base = g.select(g.is_finite(most), most, g.like(most, 0));
  const Value sum = fold(g, "add", g.exp(g.sub(x, base)), dims, true);
  return shaped(g, call, g.add(g.log(sum), base));
})

TNX_LOWER_ROW("renorm", (Row{.known = {1}}), {  // x, p, dim, maxnorm: slices along dim, shortened
  const Value x = g.convert(call.tensor(0), compute_type(call.out().type));
  const int64_t dim = wrap_dim(call.integer(2), x.rank());
  Dims others = dim_range(0, dim);
  for (const int64_t d : dim_range(dim + 1, x.rank())) {
    others.push_back(d);
  }
  Dims kept(x.dims.size(), 1);
  kept[static_cast<size_t>(dim)] = x.dims[static_cast<size_t>(dim)];
  const Value size = g.reshape(norm_of(g, x, others, call.number(1)), kept);
  const Value most = call.scalar(g, 3, x.type);
  const Value factor = g.div(most, g.add(size, g.like(size, 1e-7)));
  return {g.mul(x, g.select(g.compare("GT", size, most), factor, g.like(size, 1)))};
})

}  // namespace tnx
