// SPDX-License-Identifier: Apache-2.0
// Distances between rows, cross products, and the columns of windows.
#include <algorithm>
#include <cmath>

#include "python/torch_neuronx/csrc/lower/lowering.h"
#include "python/torch_neuronx/csrc/lower/reduce.h"

namespace tnx {
namespace {

// ---- cdist --------------------------------------------------------------------------------------

constexpr int64_t kMostDifferences = int64_t{1} << 25;

// x1 [.., P, M] and x2 [.., R, M] as differences [.., P, R, M], batches stretched to `batch`.
Value differences(Graph& g, const Value& x1, const Value& x2, const Dims& batch) {
  const int64_t p = x1.dims[x1.dims.size() - 2];
  const int64_t r = x2.dims[x2.dims.size() - 2];
  const int64_t m = x1.dims.back();
  if (count_of(batch) * p * r * m > kMostDifferences) {
    throw Unsupported("more than 2^25 differences");
  }
  const auto stretched = [&](const Value& x, int64_t n) {
    Dims dims = batch;
    dims.insert(dims.end(), {n, m});
    return g.expand(x, dims);
  };
  return g.sub(g.unsqueeze(stretched(x1, p), -2), g.unsqueeze(stretched(x2, r), -3));
}

Dims batch_of(const Value& a, const Value& b) {
  Dims dims(a.dims.begin(), a.dims.end() - 2);
  const Dims other(b.dims.begin(), b.dims.end() - 2);
  if (dims.size() < other.size()) {
    dims.insert(dims.begin(), other.size() - dims.size(), 1);
  }
  for (size_t i = 0; i < other.size(); ++i) {
    int64_t& size = dims[dims.size() - other.size() + i];
    size = other[i] == 1 ? size : other[i];
  }
  return dims;
}

std::vector<Value> distances(Graph& g, const Call& call) {  // x1, x2, p, mode
  const Type type = compute_type(call.tensor(0).type);
  const Value a = call.operand(g, 0, type);
  const Value b = call.operand(g, 1, type);
  if (a.rank() < 2 || b.rank() < 2 || a.dims.back() != b.dims.back()) {
    throw Unsupported("shapes that torch refuses");
  }
  Dims out = batch_of(a, b);
  const Dims batch = out;
  out.insert(out.end(), {a.dims[a.dims.size() - 2], b.dims[b.dims.size() - 2]});
  if (count_of(out) == 0 || a.dims.back() == 0) {
    return {g.zeros(call.tensor(0).type, out)};
  }
  const Value size = g.unary("abs", differences(g, a, b, batch));
  const Dims last = {size.rank() - 1};
  const double p = call.number(2);
  Value y;
  if (p == 0) {
    y = g.sum(g.convert(g.compare("NE", size, g.like(size, 0)), type), last);
  } else if (p == 1) {
    y = g.sum(size, last);
  } else if (p == 2) {
    y = g.sqrt(g.sum(g.mul(size, size), last));
  } else if (std::isinf(p)) {
    y = g.reduce("maximum", size, last);
  } else {
    const Value sum = g.sum(g.binary("power", size, g.like(size, p)), last);
    y = g.binary("power", sum, g.like(sum, 1 / p));
  }
  return {g.convert(y, call.tensor(0).type)};
}

std::vector<Value> distances_backward(Graph& g, const Call& call) {  // grad, x1, x2, p, cdist
  const Type type = compute_type(call.tensor(1).type);
  const Value a = call.operand(g, 1, type);
  const Value b = call.operand(g, 2, type);
  const Dims batch = batch_of(a, b);
  Dims out = batch;
  out.insert(out.end(), a.dims.end() - 2, a.dims.end());
  if (count_of(out) == 0 || b.count() == 0) {
    return {g.zeros(call.tensor(1).type, out)};
  }
  const Value d = differences(g, a, b, batch);
  const Value grad = g.unsqueeze(call.operand(g, 0, type), -1);
  const Value distance = g.expand(g.unsqueeze(call.operand(g, 4, type), -1), d.dims);
  const Value zero = g.like(d, 0);
  const Value size = g.unary("abs", d);
  const double p = call.number(3);
  Value slope;
  if (p == 0) {
    slope = zero;
  } else if (p == 1) {
    slope = g.unary("sign", d);
  } else if (p == 2) {
    slope = g.div(d, distance);
  } else if (std::isinf(p)) {
    slope = g.select(g.compare("EQ", size, distance), g.unary("sign", d), zero);
  } else {
    const Value power = g.binary("power", g.div(size, distance), g.like(d, p - 1));
    slope = g.select(g.compare("EQ", d, zero), zero, g.mul(g.unary("sign", d), power));
  }
  if (p != 1) {
    slope = g.select(g.compare("EQ", distance, zero), zero, slope);
  }
  const Value y = g.sum(g.mul(g.expand(grad, d.dims), slope), {d.rank() - 2});
  return {g.convert(y, call.tensor(1).type)};
}

// ---- columns of windows -------------------------------------------------------------------------

struct Windows {
  Dims size;
  Dims dilation;
  Dims padding;
  Dims stride;
  int64_t rows = 0;  // of windows in the plane
  int64_t columns = 0;
};

Windows windows_of(const Call& call, size_t first, int64_t height, int64_t width) {
  Windows w{call.ints(first), call.ints(first + 1), call.ints(first + 2), call.ints(first + 3)};
  for (const Dims* dims : {&w.size, &w.dilation, &w.padding, &w.stride}) {
    if (dims->size() != 2) {
      throw Unsupported("shapes that torch refuses");
    }
  }
  const auto count = [&](size_t i, int64_t n) {
    return (n + 2 * w.padding[i] - w.dilation[i] * (w.size[i] - 1) - 1) / w.stride[i] + 1;
  };
  w.rows = count(0, height);
  w.columns = count(1, width);
  if (w.size[0] * w.size[1] > 1024 || w.rows <= 0 || w.columns <= 0) {
    throw Unsupported("windows of this size");
  }
  return w;
}

// [N, C, H, W] -> [N, C * kh * kw, L]
std::vector<Value> columns_of(Graph& g, const Call& call) {
  const Value& given = call.tensor(0);
  if (given.rank() != 4 && given.rank() != 3) {
    throw Unsupported("shapes that torch refuses");
  }
  const Value x = given.rank() == 3 ? g.unsqueeze(given, 0) : given;
  const Windows w = windows_of(call, 1, x.dims[2], x.dims[3]);
  const Dims around = {0, 0, w.padding[0], w.padding[1]};
  const Value padded = g.pad(x, g.constant(x.type, 0), around, around);
  std::vector<Value> parts;
  for (int64_t i = 0; i < w.size[0]; ++i) {
    for (int64_t j = 0; j < w.size[1]; ++j) {
      const Value rows = g.narrow(padded, 2, i * w.dilation[0], w.rows, w.stride[0]);
      const Value part = g.narrow(rows, 3, j * w.dilation[1], w.columns, w.stride[1]);
      parts.push_back(g.reshape(part, {x.dims[0], x.dims[1], 1, w.rows * w.columns}));
    }
  }
  Dims out = {x.dims[0], x.dims[1] * w.size[0] * w.size[1], w.rows * w.columns};
  if (given.rank() == 3) {
    out.erase(out.begin());
  }
  return {g.reshape(g.concat(parts, 2), out)};
}

// [N, C * kh * kw, L] -> [N, C, H, W], sums where windows overlap.
std::vector<Value> planes_of(Graph& g, const Call& call) {  // x, output_size, then as above
  const Value& given = call.tensor(0);
  if (given.rank() != 3 && given.rank() != 2) {
    throw Unsupported("shapes that torch refuses");
  }
  const Type type = compute_type(given.type);
  const Value x = g.convert(given.rank() == 2 ? g.unsqueeze(given, 0) : given, type);
  const Dims& size = call.ints(1);
  const Windows w = windows_of(call, 2, size[0], size[1]);
  const int64_t taps = w.size[0] * w.size[1];
  const int64_t channels = x.dims[1] / taps;
  if (x.dims[1] % taps != 0 || x.dims[2] != w.rows * w.columns) {
    throw Unsupported("shapes that torch refuses");
  }
  const Value parts = g.reshape(x, {x.dims[0], channels, taps, w.rows, w.columns});
  Value sum;
  for (int64_t i = 0; i < w.size[0]; ++i) {
    for (int64_t j = 0; j < w.size[1]; ++j) {
      const Value part = g.squeeze(g.narrow(parts, 2, i * w.size[1] + j, 1), 2);
      const auto place = [&](size_t d, int64_t tap, int64_t count) {
        const int64_t low = tap * w.dilation[d] - w.padding[d];
        return std::pair(low, size[d] - (count - 1) * w.stride[d] - 1 - low);
      };
      const auto [top, bottom] = place(0, i, w.rows);
      const auto [left, right] = place(1, j, w.columns);
      const Value spread = g.pad(part, g.constant(type, 0), {0, 0, top, left},
                                 {0, 0, bottom, right}, {0, 0, w.stride[0] - 1, w.stride[1] - 1});
      sum = i + j == 0 ? spread : g.add(sum, spread);
    }
  }
  Dims out = {x.dims[0], channels, size[0], size[1]};
  if (given.rank() == 2) {
    out.erase(out.begin());
  }
  return {g.convert(g.reshape(sum, out), given.type)};
}

}  // namespace

TNX_LOWER_ROW("_cdist_forward", (Row{.known = {2}, .own_shapes = true}),
              { return distances(g, call); })
TNX_LOWER_ROW("_cdist_backward", (Row{.known = {3}, .own_shapes = true}),
              { return distances_backward(g, call); })
TNX_LOWER_ROW("im2col", (Row{.own_shapes = true}), { return columns_of(g, call); })
TNX_LOWER_ROW("col2im", (Row{.own_shapes = true}), { return planes_of(g, call); })
TNX_LOWER("linalg_cross", {  // a, b, dim
  const Type type = compute_type(call.out().type);
  const Value a = g.expand(call.operand(g, 0, type), call.out().dims);
  const Value b = g.expand(call.operand(g, 1, type), call.out().dims);
  const int64_t dim = wrap_dim(call.integer(2), a.rank());
  const auto part = [&](const Value& x, int64_t i) { return g.narrow(x, dim, i % 3, 1); };
  std::vector<Value> parts;
  for (int64_t i = 0; i < 3; ++i) {
    parts.push_back(
        g.sub(g.mul(part(a, i + 1), part(b, i + 2)), g.mul(part(a, i + 2), part(b, i + 1))));
  }
  return {g.concat(parts, dim)};
})

}  // namespace tnx
