// SPDX-License-Identifier: Apache-2.0
// Joining, padding, turning and masking by position; derivatives of views; factories whose elements
// follow from their positions.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "python/torch_neuronx/csrc/lower/lowering.h"

namespace tnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// ---- joining ----

std::vector<Value> join(Graph& g, const Call& call, bool stacked) {
  const Meta& out = call.out();
  const int64_t dim = wrap_dim(call.integer(1), static_cast<int64_t>(out.dims.size()));
  std::vector<Value> parts;
  for (const Value& part : call.tensors(0)) {
    if (part.count() > 0) {  // torch also takes [0] beside any rank
      parts.push_back(g.convert(stacked ? g.unsqueeze(part, dim) : part, out.type));
    }
  }
  return {g.concat(parts, dim)};
}

Value rolled(Graph& g, const Value& x, int64_t shift, int64_t dim) {
  const int64_t n = x.dims[at(dim)];
  const int64_t by = ((shift % n) + n) % n;
  return by == 0 ? x : g.concat({g.narrow(x, dim, n - by, by), g.narrow(x, dim, 0, n - by)}, dim);
}

std::vector<Value> roll(Graph& g, const Call& call) {
  const Value& x = call.tensor(0);
  const Dims& shifts = call.ints(1);
  const Dims& dims = call.ints(2);
  if (dims.empty()) {
    const Value flat = g.reshape(x, {x.count()});
    return {g.reshape(rolled(g, flat, shifts[0], 0), x.dims)};
  }
  Value result = x;
  for (size_t i = 0; i < dims.size(); ++i) {
    result = rolled(g, result, shifts[i], wrap_dim(dims[i], x.rank()));
  }
  return {result};
}

std::vector<Value> repeat(Graph& g, const Call& call) {
  const Value& x = call.tensor(0);
  const Dims& repeats = call.ints(1);
  const size_t lead = repeats.size() - x.dims.size();
  Dims dims;  // repeat, size, repeat, size ..
  Dims map;
  for (size_t i = 0; i < repeats.size(); ++i) {
    dims.push_back(repeats[i]);
    if (i >= lead) {
      map.push_back(static_cast<int64_t>(dims.size()));
      dims.push_back(x.dims[i - lead]);
    }
  }
  return {g.reshape(g.broadcast(x, dims, map), call.out().dims)};
}

// ---- padding ----

// torch names paddings from the last dimension on, low and high.
struct Padding {
  int64_t dim;
  int64_t low;
  int64_t high;
};

std::vector<Padding> paddings(const Dims& pad, int64_t rank) {
  std::vector<Padding> list;
  for (size_t i = 0; i + 1 < pad.size(); i += 2) {
    list.push_back({rank - 1 - static_cast<int64_t>(i / 2), pad[i], pad[i + 1]});
  }
  return list;
}

// Zeros around dimension dim; negative widths leave elements out.
Value pad_zeros(Graph& g, const Value& x, int64_t dim, int64_t low, int64_t high) {
  Dims lows(x.dims.size(), 0);
  Dims highs(x.dims.size(), 0);
  lows[at(dim)] = low;
  highs[at(dim)] = high;
  return g.pad(x, g.constant(x.type, 0), lows, highs);
}

std::vector<Value> constant_pad(Graph& g, const Call& call) {
  const Value& x = call.tensor(0);
  Dims low(x.dims.size(), 0);
  Dims high(x.dims.size(), 0);
  for (const Padding& p : paddings(call.ints(1), x.rank())) {
    low[at(p.dim)] = p.low;
    high[at(p.dim)] = p.high;
  }
  return {g.pad(x, call.scalar(g, 2, x.type), low, high)};
}

// What stands before (or after) the elements of a dimension: mirrored without the edge, or the
// edge.
Value border(Graph& g, const Value& x, int64_t dim, int64_t width, bool before, bool mirrored) {
  const int64_t n = x.dims[at(dim)];
  if (mirrored) {
    return g.reverse(g.narrow(x, dim, before ? 1 : n - 1 - width, width), {dim});
  }
  Dims dims = x.dims;
  dims[at(dim)] = width;
  return g.expand(g.narrow(x, dim, before ? 0 : n - 1, 1), dims);
}

std::vector<Value> pad_border(Graph& g, const Call& call, bool mirrored) {
  Value x = call.tensor(0);
  for (const Padding& p : paddings(call.ints(1), x.rank())) {
    std::vector<Value> parts;
    if (p.low > 0) {
      parts.push_back(border(g, x, p.dim, p.low, true, mirrored));
    }
    parts.push_back(x);
    if (p.high > 0) {
      parts.push_back(border(g, x, p.dim, p.high, false, mirrored));
    }
    x = pad_zeros(g, g.concat(parts, p.dim), p.dim, std::min<int64_t>(p.low, 0),
                  std::min<int64_t>(p.high, 0));
  }
  return {x};
}

// The gradient that a border's elements send to the n elements of the dimension.
Value border_gradient(Graph& g, const Value& grad, int64_t dim, int64_t n, bool before,
                      bool mirrored) {
  if (mirrored) {
    const int64_t width = grad.dims[at(dim)];
    const int64_t low = before ? 1 : n - 1 - width;
    return pad_zeros(g, g.reverse(grad, {dim}), dim, low, n - width - low);
  }
  const Value sum = g.sum(grad, {dim}, true);
  return pad_zeros(g, sum, dim, before ? 0 : n - 1, before ? n - 1 : 0);
}

std::vector<Value> pad_border_backward(Graph& g, const Call& call, bool mirrored) {  // grad, x, pad
  Value grad = g.convert(call.tensor(0), compute_type(call.out().type));
  const Dims& dims = call.out().dims;
  for (const Padding& p : paddings(call.ints(2), grad.rank())) {
    grad = pad_zeros(g, grad, p.dim, std::max<int64_t>(-p.low, 0), std::max<int64_t>(-p.high, 0));
    const int64_t n = dims[at(p.dim)];
    const int64_t low = std::max<int64_t>(p.low, 0);
    const int64_t high = std::max<int64_t>(p.high, 0);
    Value sum = g.narrow(grad, p.dim, low, n);
    if (low > 0) {
      sum = g.add(sum, border_gradient(g, g.narrow(grad, p.dim, 0, low), p.dim, n, true, mirrored));
    }
    if (high > 0) {
      sum = g.add(
          sum, border_gradient(g, g.narrow(grad, p.dim, low + n, high), p.dim, n, false, mirrored));
    }
    grad = sum;
  }
  return {grad};
}

}  // namespace

TNX_LOWER("cat", { return join(g, call, false); })
TNX_LOWER("stack", { return join(g, call, true); })
TNX_LOWER("flip",
          { return {g.reverse(call.tensor(0), wrap_dims(call.tensor(0), call.ints(1), false))}; })
TNX_LOWER("roll", { return roll(g, call); })
TNX_LOWER("repeat", { return repeat(g, call); })
TNX_LOWER("constant_pad_nd", { return constant_pad(g, call); })
TNX_LOWER("reflection_pad1d", { return pad_border(g, call, true); })
TNX_LOWER("reflection_pad2d", { return pad_border(g, call, true); })
TNX_LOWER("reflection_pad3d", { return pad_border(g, call, true); })
TNX_LOWER("replication_pad1d", { return pad_border(g, call, false); })
TNX_LOWER("replication_pad2d", { return pad_border(g, call, false); })
TNX_LOWER("replication_pad3d", { return pad_border(g, call, false); })
TNX_LOWER("reflection_pad1d_backward", { return pad_border_backward(g, call, true); })
TNX_LOWER("reflection_pad2d_backward", { return pad_border_backward(g, call, true); })
TNX_LOWER("reflection_pad3d_backward", { return pad_border_backward(g, call, true); })
TNX_LOWER("replication_pad1d_backward", { return pad_border_backward(g, call, false); })
TNX_LOWER("replication_pad2d_backward", { return pad_border_backward(g, call, false); })
TNX_LOWER("replication_pad3d_backward", { return pad_border_backward(g, call, false); })

// ---- by position --------------------------------------------------------------------------------

namespace {

// column - row of each element of the last two dimensions.
Value diagonal_number(Graph& g, const Dims& dims) {
  const Dims matrix(dims.end() - 2, dims.end());
  return g.sub(g.iota(kS64, matrix, 1), g.iota(kS64, matrix, 0));
}

std::vector<Value> triangle(Graph& g, const Call& call, const char* direction) {
  const Value& x = call.tensor(0);
  const Value keep =
      g.compare(direction, diagonal_number(g, x.dims), g.integer(kS64, call.integer(1)));
  return {g.select(keep, x, g.constant(x.type, 0))};
}

std::vector<Value> identity(Graph& g, const Call& call) {
  return {g.convert(g.compare("EQ", diagonal_number(g, call.out().dims), g.integer(kS64, 0)),
                    call.out().type)};
}

// torch's numbers of int32 and int64 as a dtype argument.
constexpr int64_t kIntCode = 3;
constexpr int64_t kLongCode = 4;
constexpr size_t kLargestLiteral = size_t{1} << 16;

// Rows, then columns of a triangle's elements, row by row.
std::vector<Value> triangle_indices(Graph& g, const Call& call, bool lower) {
  const int64_t rows = call.integer(0);
  const int64_t columns = call.integer(1);
  const int64_t offset = call.integer(2);
  if (rows < 0 || columns < 0) {
    throw Error("row and col must be non-negative, got " + std::to_string(rows) + " and " +
                std::to_string(columns));
  }
  const int64_t code = call.integer_or(3, kLongCode);
  if (code != kLongCode && code != kIntCode) {
    throw Unsupported("the type of the indices");
  }
  std::vector<int64_t> row_of;
  std::vector<int64_t> column_of;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t edge = std::clamp<int64_t>(r + offset + (lower ? 1 : 0), 0, columns);
    for (int64_t c = lower ? 0 : edge; c < (lower ? edge : columns); ++c) {
      row_of.push_back(r);
      column_of.push_back(c);
    }
    if (row_of.size() > kLargestLiteral) {
      throw Unsupported("more than 65536 indices");
    }
  }
  const auto n = static_cast<int64_t>(row_of.size());
  const Type type = code == kIntCode ? kS32 : kS64;
  if (n == 0) {
    return {g.zeros(type, {2, 0})};
  }
  row_of.insert(row_of.end(), column_of.begin(), column_of.end());
  return {g.convert(g.literal(kS64, {2, n}, row_of.data(), row_of.size() * 8), type)};
}

// start, end, steps: from both ends, so that both are met exactly. `value` maps the exponents.
Value even_steps(Graph& g, const Call& call) {
  const Meta& out = call.out();
  if (!is_float(out.type)) {
    throw Unsupported("whole numbers are rounded in double precision");
  }
  const Type type = compute_type(out.type);
  const int64_t steps = out.dims[0];
  const Value start = call.operand(g, 0, type);
  if (steps == 1) {
    return g.reshape(start, {1});
  }
  const Value end = call.operand(g, 1, type);
  const Value step = g.div(g.sub(end, start), g.constant(type, static_cast<double>(steps - 1)));
  const Value i = g.iota(kS32, {steps}, 0);
  const Value up = g.add(start, g.mul(step, g.convert(i, type)));
  const Value back = g.convert(g.sub(g.integer(kS32, steps - 1), i), type);
  const Value down = g.sub(end, g.mul(step, back));
  return g.select(g.compare("LT", i, g.integer(kS32, steps / 2)), up, down);
}

}  // namespace

TNX_LOWER("tril", { return triangle(g, call, "LE"); })
TNX_LOWER("triu", { return triangle(g, call, "GE"); })
TNX_LOWER("eye", { return identity(g, call); })
TNX_LOWER("eye.m", { return identity(g, call); })
TNX_LOWER_ROW("tril_indices", (Row{.own_shapes = true}),
              { return triangle_indices(g, call, true); })
TNX_LOWER_ROW("triu_indices", (Row{.own_shapes = true}),
              { return triangle_indices(g, call, false); })
TNX_LOWER("linspace", { return {even_steps(g, call)}; })
TNX_LOWER("logspace", {
  const Value exponents = even_steps(g, call);
  return {g.binary("power", call.operand(g, 3, exponents.type), exponents)};
})

// ---- derivatives of views -----------------------------------------------------------------------

namespace {

// grad, input_sizes, dim, start, end, step
std::vector<Value> slice_backward(Graph& g, const Call& call) {
  const Value& grad = call.tensor(0);
  const Dims& sizes = call.ints(1);
  if (grad.count() == 0) {
    return {g.zeros(grad.type, sizes)};
  }
  const auto dim = at(wrap_dim(call.integer(2), grad.rank()));
  const int64_t n = sizes[dim];
  int64_t start = call.integer(3);
  start = std::clamp<int64_t>(start < 0 ? start + n : start, 0, n);
  const int64_t step = call.integer(5);
  Dims low(sizes.size(), 0);
  Dims high(sizes.size(), 0);
  Dims between(sizes.size(), 0);
  low[dim] = start;
  between[dim] = step - 1;
  high[dim] = n - start - ((grad.dims[dim] - 1) * step + 1);
  return {g.pad(grad, g.constant(grad.type, 0), low, high, between)};
}

std::vector<Value> select_backward(Graph& g, const Call& call) {  // grad, sizes, dim, index
  const Dims& sizes = call.ints(1);
  const int64_t dim = wrap_dim(call.integer(2), static_cast<int64_t>(sizes.size()));
  const int64_t n = sizes[at(dim)];
  const int64_t index = call.integer(3) < 0 ? call.integer(3) + n : call.integer(3);
  return {pad_zeros(g, g.unsqueeze(call.tensor(0), dim), dim, index, n - 1 - index)};
}

// grad, input_sizes, dim, size, step. grad has the windows at dim and their elements last: element
// k of all windows is spread over the input, for each k.
std::vector<Value> unfold_backward(Graph& g, const Call& call) {
  const Dims& sizes = call.ints(1);
  const int64_t size = call.integer(3);
  const int64_t step = call.integer(4);
  const Type type = compute_type(call.out().type);
  const Value grad = g.convert(call.tensor(0), type);
  if (grad.count() == 0 || sizes.empty()) {
    return {grad.count() == 0 ? g.zeros(type, sizes) : g.reshape(grad, sizes)};
  }
  if (size > 64) {
    throw Unsupported("windows of more than 64 elements");
  }
  const auto dim = at(wrap_dim(call.integer(2), static_cast<int64_t>(sizes.size())));
  Dims low(sizes.size(), 0);
  Dims high(sizes.size(), 0);
  Dims between(sizes.size(), 0);
  between[dim] = step - 1;
  Value sum;
  for (int64_t k = 0; k < size; ++k) {
    const Value part = g.squeeze(g.narrow(grad, -1, k, 1), -1);
    low[dim] = k;
    high[dim] = sizes[dim] - k - ((part.dims[dim] - 1) * step + 1);
    const Value spread = g.pad(part, g.constant(type, 0), low, high, between);
    sum = k == 0 ? spread : g.add(sum, spread);
  }
  return {sum};
}

}  // namespace

TNX_LOWER("slice_backward", { return slice_backward(g, call); })
TNX_LOWER("select_backward", { return select_backward(g, call); })
TNX_LOWER("unfold_backward", { return unfold_backward(g, call); })

// ---- comparison with all elements of a list -----------------------------------------------------

namespace {

constexpr int64_t kMostPairs = int64_t{1} << 26;

void check_pairs(int64_t a, int64_t b) {
  if (b > 0 && a > kMostPairs / b) {
    throw Unsupported("more than 2^26 comparisons");
  }
}

Type joint_type(Type a, Type b) {
  if (a == b) {
    return a;
  }
  return is_float(a) || is_float(b) ? kF32 : kS64;
}

std::vector<Value> isin(Graph& g, const Call& call) {
  const Type of_list = call.is_tensor(1)                                  ? call.tensor(1).type
                       : call.scalar_info(1).kind == Number::Kind::kFloat ? kF32
                                                                          : kS64;
  const Type of_elements = call.is_tensor(0)                                  ? call.tensor(0).type
                           : call.scalar_info(0).kind == Number::Kind::kFloat ? kF32
                                                                              : kS64;
  const Type type = joint_type(of_elements, of_list);
  const Value elements = call.operand(g, 0, type);
  const Value list = call.operand(g, 1, type);
  check_pairs(elements.count(), list.count());
  Value found = g.zeros(kPred, elements.dims);
  if (list.count() > 0) {
    const Value equal = g.compare("EQ", g.reshape(elements, {elements.count(), 1}),
                                  g.reshape(list, {1, list.count()}));
    found = g.reshape(g.reduce("or", equal, {1}), elements.dims);
  }
  return {call.flag(3) ? g.logical_not(found) : found};
}

// How many elements of a sorted list come before each x: its place.
Value places(Graph& g, const Value& list, const Value& x, bool right) {
  return g.sum(g.convert(g.logical_not(g.compare(right ? "GT" : "GE", list, x)), kS32),
               {list.rank() - 1});
}

std::vector<Value> bucketize(Graph& g, const Call& call) {  // x, boundaries, out_int32, right
  const Value& list = call.tensor(1);
  const Type type = call.is_tensor(0) ? joint_type(call.tensor(0).type, list.type) : list.type;
  const Value x = call.operand(g, 0, type);
  check_pairs(x.count(), list.count());
  if (list.count() == 0) {
    return {g.zeros(call.out().type, x.dims)};
  }
  const Value sorted = g.expand(g.convert(list, type), {x.count(), list.count()});
  return {g.reshape(places(g, sorted, g.reshape(x, {x.count(), 1}), call.flag(3)), x.dims)};
}

// sorted, x, out_int32, right, side, sorter
std::vector<Value> searchsorted(Graph& g, const Call& call) {
  Value list = call.tensor(0);
  if (call.has(5)) {
    list = g.take_along(list, call.tensor(5), -1);
  }
  const bool right = call.flag(3) || (call.has(4) && call.text(4) == "right");
  const Type type = call.is_tensor(1) ? joint_type(call.tensor(1).type, list.type) : list.type;
  const Value x = call.operand(g, 1, type);
  const int64_t n = list.dims.back();
  if (list.count() == 0) {
    return {g.zeros(call.out().type, x.dims)};
  }
  // [groups, of x, of the list]; a flat list is for all x.
  const int64_t groups = list.rank() == 1 ? 1 : list.count() / n;
  const int64_t each = x.count() / groups;
  check_pairs(x.count(), n);
  const Dims dims = {groups, each, n};
  const Value all = g.broadcast(g.convert(g.reshape(list, {groups, n}), type), dims, {0, 2});
  return {g.reshape(places(g, all, g.reshape(x, {groups, each, 1}), right), x.dims)};
}

// Counts of bins of one width between min and max (the data's, if both are the same).
std::vector<Value> histc(Graph& g, const Call& call) {  // x, bins, min, max
  const int64_t bins = call.integer(1);
  const Type type = compute_type(call.tensor(0).type);
  const Value x = g.reshape(g.convert(call.tensor(0), type), {call.tensor(0).count()});
  Value low = call.scalar(g, 2, type);
  Value high = call.scalar(g, 3, type);
  if (x.count() == 0) {
    return {g.zeros(type, {bins})};
  }
  const Value own = g.compare("EQ", low, high);
  low = g.select(own, g.reduce("minimum", x, {0}), low);
  high = g.select(own, g.reduce("maximum", x, {0}), high);
  const Value flat = g.compare("EQ", low, high);
  const Value one = g.constant(type, 1);
  low = g.select(flat, g.sub(low, one), low);
  high = g.select(flat, g.add(high, one), high);
  const Value place =
      g.div(g.mul(g.sub(x, low), g.constant(type, static_cast<double>(bins))), g.sub(high, low));
  const Value inside = g.binary("and", g.compare("GE", x, low), g.compare("LE", x, high));
  const Value bin = g.min(g.convert(place, kS64), g.integer(kS64, bins - 1));
  check_pairs(x.count(), bins);
  const Value kept = g.select(inside, bin, g.integer(kS64, -1));
  const Value hits = g.compare("EQ", g.reshape(kept, {x.count(), 1}), g.iota(kS64, {1, bins}, 1));
  return {g.sum(g.convert(hits, type), {0})};
}

}  // namespace

TNX_LOWER("isin.Tensor_Tensor", { return isin(g, call); })
TNX_LOWER("isin.Tensor_Scalar", { return isin(g, call); })
TNX_LOWER("isin.Scalar_Tensor", { return isin(g, call); })
TNX_LOWER("bucketize.Tensor", { return bucketize(g, call); })
TNX_LOWER("bucketize.Scalar", { return bucketize(g, call); })
TNX_LOWER("searchsorted.Tensor", { return searchsorted(g, call); })
TNX_LOWER("searchsorted.Scalar", { return searchsorted(g, call); })
TNX_LOWER("histc", { return histc(g, call); })

}  // namespace tnx
