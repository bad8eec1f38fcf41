// SPDX-License-Identifier: Apache-2.0
// Pooling and resampling of 1 to 3 spatial dimensions, and their derivatives. What torch computes
// dimension by dimension is done so: a matrix or a list of positions for each.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "python/torch_neuronx/csrc/lower/lowering.h"

namespace tnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// The window over each spatial dimension. The spatial dimensions are the last ones.
struct Pool {
  size_t rank = 0;  // spatial
  Dims size;
  Dims stride;
  Dims padding;
  Dims dilation;
};

Dims repeated(const Dims& given, size_t rank, int64_t other) {
  if (given.empty()) {
    return Dims(rank, other);
  }
  return given.size() == 1 ? Dims(rank, given[0]) : given;
}

Pool pool_of(const Call& call, size_t size, size_t rank, bool dilated) {
  Pool pool;
  pool.rank = rank;
  pool.size = repeated(call.ints(size), rank, 1);
  pool.stride = call.ints(size + 1).empty() ? pool.size : repeated(call.ints(size + 1), rank, 1);
  pool.padding = repeated(call.ints(size + 2), rank, 0);
  pool.dilation = dilated ? repeated(call.ints(size + 3), rank, 1) : Dims(rank, 1);
  return pool;
}

// ---- greatest -----------------------------------------------------------------------------------

Value vector(Graph& g, const std::vector<int64_t>& values) {
  return g.literal(kS64, {static_cast<int64_t>(values.size())}, values.data(), values.size() * 8);
}

// Along spatial dimension i of x: a vector of positions over the result's dims.
Value over(Graph& g, const std::vector<int64_t>& values, const Dims& dims, size_t dim) {
  return g.broadcast(vector(g, values), dims, {static_cast<int64_t>(dim)});
}

// The position in the plane that a window has at its first element inside.
Value first_position(Graph& g, const Pool& pool, const Dims& in, const Dims& out) {
  const size_t lead = in.size() - pool.rank;
  Value sum;
  int64_t plane = 1;
  for (size_t i = pool.rank; i-- > 0;) {
    std::vector<int64_t> values;
    for (int64_t o = 0; o < out[lead + i]; ++o) {
      int64_t start = o * pool.stride[i] - pool.padding[i];
      while (start < 0) {
        start += pool.dilation[i];
      }
      values.push_back(start * plane);
    }
    const Value part = over(g, values, out, lead + i);
    sum = i + 1 == pool.rank ? part : g.add(sum, part);
    plane *= in[lead + i];
  }
  return sum;
}

// Element `offset` of each window, and its position in the plane.
struct Tap {
  Value values;
  Value positions;
};

Tap tap(Graph& g, const Value& padded, const Pool& pool, const Dims& in, const Dims& out,
        const Dims& offset) {
  const size_t lead = in.size() - pool.rank;
  Tap result;
  result.values = padded;
  int64_t plane = 1;
  for (size_t i = pool.rank; i-- > 0;) {
    const int64_t from = offset[i] * pool.dilation[i];
    result.values = g.narrow(result.values, static_cast<int64_t>(lead + i), from, out[lead + i],
                             pool.stride[i]);
    std::vector<int64_t> values;
    for (int64_t o = 0; o < out[lead + i]; ++o) {
      values.push_back((o * pool.stride[i] - pool.padding[i] + from) * plane);
    }
    const Value part = over(g, values, out, lead + i);
    result.positions = i + 1 == pool.rank ? part : g.add(result.positions, part);
    plane *= in[lead + i];
  }
  return result;
}

// Counts offset up like an odometer; false after the last.
bool next(Dims& offset, const Dims& size) {
  for (size_t i = offset.size(); i-- > 0;) {
    if (++offset[i] < size[i]) {
      return true;
    }
    offset[i] = 0;
  }
  return false;
}

std::vector<Value> max_pool(Graph& g, const Call& call, size_t rank) {
  const Value& x = call.tensor(0);
  const Pool pool = pool_of(call, 1, rank, true);
  if (count_of(pool.size) > 512) {
    throw Unsupported("windows of more than 512 elements");
  }
  const Dims& out = call.out().dims;
  const size_t lead = x.dims.size() - rank;
  Dims low(x.dims.size(), 0);
  Dims high(x.dims.size(), 0);
  for (size_t i = 0; i < rank; ++i) {
    low[lead + i] = pool.padding[i];
    const int64_t reach =
        (out[lead + i] - 1) * pool.stride[i] + (pool.size[i] - 1) * pool.dilation[i] + 1;
    high[lead + i] = std::max<int64_t>(reach - x.dims[lead + i] - pool.padding[i], 0);
  }
  const Value padded = g.pad(x, g.lowest(x.type), low, high);
  Value best = g.broadcast(g.lowest(x.type), out, {});
  Value position = first_position(g, pool, x.dims, out);
  Dims offset(rank, 0);
  do {
    const Tap t = tap(g, padded, pool, x.dims, out, offset);
    Value better = g.compare("GT", t.values, best);
    if (is_float(x.type)) {
      better = g.binary("or", better, g.is_nan(t.values));
    }
    best = g.select(better, t.values, best);
    position = g.select(better, t.positions, position);
  } while (next(offset, pool.size));
  return {best, position};
}

// Windows of output o: from floor(o n / windows) to ceil((o + 1) n / windows).
std::vector<Value> adaptive_max_pool(Graph& g, const Call& call, size_t rank) {
  const Value& x = call.tensor(0);
  const Dims& out = call.out().dims;
  const size_t lead = x.dims.size() - rank;
  Dims size;
  for (size_t i = 0; i < rank; ++i) {
    int64_t most = 1;
    const int64_t n = x.dims[lead + i];
    const int64_t windows = out[lead + i];
    for (int64_t o = 0; o < windows; ++o) {
      most = std::max(most, ((o + 1) * n + windows - 1) / windows - o * n / windows);
    }
    size.push_back(most);
  }
  if (count_of(size) > 512) {
    throw Unsupported("windows of more than 512 elements");
  }
  Value best = g.broadcast(g.lowest(x.type), out, {});
  Value position;
  Dims offset(rank, 0);
  do {
    Value values = x;
    Value positions;
    int64_t plane = 1;
    for (size_t i = rank; i-- > 0;) {
      const int64_t n = x.dims[lead + i];
      const int64_t windows = out[lead + i];
      std::vector<int64_t> from;
      std::vector<int64_t> in_plane;
      for (int64_t o = 0; o < windows; ++o) {  // the last element again where windows are short
        const int64_t end = ((o + 1) * n + windows - 1) / windows;
        from.push_back(std::min(o * n / windows + offset[i], end - 1));
        in_plane.push_back(from.back() * plane);
      }
      values = g.index_select(values, vector(g, from), static_cast<int64_t>(lead + i));
      const Value part = over(g, in_plane, out, lead + i);
      positions = i + 1 == rank ? part : g.add(positions, part);
      plane *= n;
    }
    Value better = g.compare("GT", values, best);
    if (is_float(x.type)) {
      better = g.binary("or", better, g.is_nan(values));
    }
    position = position.id < 0 ? positions : g.select(better, positions, position);
    best = g.select(better, values, best);
  } while (next(offset, size));
  return {best, position};
}

// grad, x, .., indices (argument `at`): each gradient goes to the position in its plane.
std::vector<Value> max_pool_backward(Graph& g, const Call& call, size_t rank, size_t at = 7) {
  const Value& x = call.tensor(1);
  const Type type = compute_type(call.out().type);
  const Value grad = g.convert(call.tensor(0), type);
  const int64_t plane =
      count_of(Dims(x.dims.end() - static_cast<std::ptrdiff_t>(rank), x.dims.end()));
  const int64_t planes = x.count() / plane;
  const int64_t each = grad.count() / planes;
  Graph::GatherDims dims;
  dims.collapsed = {1};
  dims.index_map = {1};
  dims.index_vector = 2;
  dims.operand_batching = {0};
  dims.indices_batching = {0};
  const Value sums =
      g.scatter("add", g.zeros(type, {planes, plane}), g.reshape(call.tensor(at), {planes, each}),
                g.reshape(grad, {planes, each}), dims);
  return {g.reshape(sums, x.dims)};
}

}  // namespace

TNX_LOWER("max_pool2d_with_indices", { return max_pool(g, call, 2); })
TNX_LOWER("max_pool3d_with_indices", { return max_pool(g, call, 3); })
TNX_LOWER("adaptive_max_pool2d", { return adaptive_max_pool(g, call, 2); })
TNX_LOWER("adaptive_max_pool3d", { return adaptive_max_pool(g, call, 3); })
TNX_LOWER("adaptive_max_pool2d_backward", { return max_pool_backward(g, call, 2, 2); })
TNX_LOWER("adaptive_max_pool3d_backward", { return max_pool_backward(g, call, 3, 2); })
TNX_LOWER("max_pool2d_with_indices_backward", { return max_pool_backward(g, call, 2); })
TNX_LOWER("max_pool3d_with_indices_backward", { return max_pool_backward(g, call, 3); })

// ---- linear along each dimension ----------------------------------------------------------------

namespace {

// A matrix [out, in]: factors of a dimension's elements.
struct Weights {
  int64_t out = 0;
  int64_t in = 0;
  std::vector<float> values;

  Weights(int64_t rows, int64_t columns)
      : out(rows), in(columns), values(at(rows * columns), 0.0F) {}
  void add(int64_t row, int64_t column, double weight) {
    values[at(row * in + column)] += static_cast<float>(weight);
  }
};

constexpr size_t kMostTaps = 256;

// x with dimension `dim` multiplied by the weights, or (back) by their transpose: the n-th term of
// all elements at once. Terms that aren't there are no products with 0, which infinities would
// spoil.
Value along(Graph& g, const Value& x, int64_t dim, const Weights& weights, bool back) {
  const int64_t n = back ? weights.in : weights.out;
  std::vector<std::vector<std::pair<int64_t, float>>> terms(at(n));
  for (int64_t o = 0; o < weights.out; ++o) {
    for (int64_t i = 0; i < weights.in; ++i) {
      const float weight = weights.values[at(o * weights.in + i)];
      if (weight != 0) {
        terms[at(back ? i : o)].emplace_back(back ? o : i, weight);
      }
    }
  }
  size_t most = 0;
  for (const auto& list : terms) {
    most = std::max(most, list.size());
  }
  if (most > kMostTaps) {
    throw Unsupported("more than 256 terms along a dimension");
  }
  Dims dims = x.dims;
  dims[at(dim)] = n;
  Value sum = g.zeros(kF32, dims);
  for (size_t t = 0; t < most; ++t) {
    std::vector<int64_t> positions(at(n), 0);
    std::vector<float> factors(at(n), 0.0F);
    std::vector<uint8_t> there(at(n), 0);
    for (size_t k = 0; k < at(n); ++k) {
      if (t < terms[k].size()) {
        std::tie(positions[k], factors[k]) = terms[k][t];
        there[k] = 1;
      }
    }
    const Value factor =
        g.broadcast(g.literal(kF32, {n}, factors.data(), factors.size() * 4), dims, {dim});
    const Value term = g.mul(g.index_select(x, vector(g, positions), dim), factor);
    const Value mask = g.broadcast(g.literal(kPred, {n}, there.data(), there.size()), dims, {dim});
    sum = g.add(sum, g.select(mask, term, g.constant(kF32, 0)));
  }
  return sum;
}

// All spatial dimensions: `make(i, in, out)` gives the weights of the i-th one.
template <class Make>
Value along_all(Graph& g, const Value& given, const Dims& in, const Dims& out, bool back,
                Make&& make) {
  if (!is_float(given.type)) {
    throw Unsupported("whole numbers");
  }
  Value x = g.convert(given, kF32);
  const size_t lead = given.dims.size() - in.size();
  for (size_t i = 0; i < in.size(); ++i) {
    x = along(g, x, static_cast<int64_t>(lead + i), make(i, in[i], out[i]), back);
  }
  return x;
}

Dims last(const Dims& dims, size_t n) {
  return Dims(dims.end() - static_cast<std::ptrdiff_t>(n), dims.end());
}

// size, stride, padding, ceil_mode, count_include_pad, divisor_override from `first` on.
std::vector<Value> average_pool(Graph& g, const Call& call, size_t rank, bool back) {
  const size_t first = back ? 2 : 1;
  const Pool pool = pool_of(call, first, rank, false);
  const bool padding_counts = call.flag(first + 4);
  const bool own_divisor = call.has(first + 5);
  const Dims in = last(call.tensor(back ? 1 : 0).dims, rank);
  const Dims out = last(back ? call.tensor(0).dims : call.out().dims, rank);
  const auto make = [&](size_t i, int64_t n, int64_t windows) {
    Weights weights(windows, n);
    for (int64_t o = 0; o < windows; ++o) {
      const int64_t start = o * pool.stride[i] - pool.padding[i];
      const int64_t end = std::min(start + pool.size[i], n + pool.padding[i]);
      const int64_t from = std::max<int64_t>(start, 0);
      const int64_t to = std::min(end, n);
      const double count = static_cast<double>(padding_counts ? end - start : to - from);
      for (int64_t k = from; k < to; ++k) {
        weights.add(o, k, own_divisor ? 1 : 1 / count);
      }
    }
    return weights;
  };
  Value y = along_all(g, call.tensor(0), in, out, back, make);
  if (own_divisor) {
    y = g.div(y, g.constant(kF32, static_cast<double>(call.integer(first + 5))));
  }
  return {y};
}

std::vector<Value> adaptive_pool(Graph& g, const Call& call, size_t rank, bool back) {
  const Dims in = last(call.tensor(back ? 1 : 0).dims, rank);
  const Dims out = last(back ? call.tensor(0).dims : call.out().dims, rank);
  return {along_all(g, call.tensor(0), in, out, back, [](size_t, int64_t n, int64_t windows) {
    Weights weights(windows, n);
    for (int64_t o = 0; o < windows; ++o) {
      const int64_t from = o * n / windows;
      const int64_t to = ((o + 1) * n + windows - 1) / windows;
      for (int64_t k = from; k < to; ++k) {
        weights.add(o, k, 1.0 / static_cast<double>(to - from));
      }
    }
    return weights;
  })};
}

// Input elements for each one of the output.
double scale_of(const Call& call, size_t i, int64_t in, int64_t out) {
  if (call.has(i) && call.number(i) > 0) {
    return 1 / call.number(i);
  }
  return static_cast<double>(in) / static_cast<double>(out);
}

Weights linear_weights(const Call& call, size_t scale, bool corners, int64_t in, int64_t out) {
  Weights weights(out, in);
  for (int64_t o = 0; o < out; ++o) {
    double place = 0;
    if (corners) {
      place = out > 1 ? static_cast<double>(o * (in - 1)) / static_cast<double>(out - 1) : 0;
    } else {
      place = std::max(scale_of(call, scale, in, out) * (static_cast<double>(o) + 0.5) - 0.5, 0.0);
    }
    const int64_t low = std::min(static_cast<int64_t>(place), in - 1);
    const int64_t high = std::min(low + 1, in - 1);
    const double part = std::clamp(place - static_cast<double>(low), 0.0, 1.0);
    weights.add(o, low, 1 - part);
    weights.add(o, high, part);
  }
  return weights;
}

// x, output_size, [align_corners,] scales; backward: grad, output_size, input_size, ..
template <class Make>
std::vector<Value> resample(Graph& g, const Call& call, size_t rank, bool back, Make&& make) {
  const Dims in = last(back ? call.ints(2) : call.tensor(0).dims, rank);
  const Dims out = last(back ? call.tensor(0).dims : call.out().dims, rank);
  const size_t corners = back ? 3 : 2;
  return {along_all(g, call.tensor(0), in, out, back, [&](size_t i, int64_t n, int64_t m) {
    return make(call, corners + 1 + i, call.flag(corners), n, m);
  })};
}

// Keys' cubic convolution with a = -0.75: weights of the four neighbours, edges repeated.
Weights cubic_weights(const Call& call, size_t scale, bool corners, int64_t in, int64_t out) {
  constexpr double kA = -0.75;
  const auto near = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  Weights weights(out, in);
  for (int64_t o = 0; o < out; ++o) {
    const double place =
        corners ? (out > 1 ? static_cast<double>(o * (in - 1)) / static_cast<double>(out - 1) : 0)
                : scale_of(call, scale, in, out) * (static_cast<double>(o) + 0.5) - 0.5;
    const auto low = static_cast<int64_t>(std::floor(place));
    const double t = place - static_cast<double>(low);
    const double factors[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (int64_t k = 0; k < 4; ++k) {
      weights.add(o, std::clamp<int64_t>(low - 1 + k, 0, in - 1), factors[k]);
    }
  }
  return weights;
}

// The nearest element: rounded down, or (exact) that of the middle.
std::vector<int64_t> nearest(const Call& call, size_t scale, bool exact, int64_t in, int64_t out) {
  std::vector<int64_t> places;
  const auto step = static_cast<float>(scale_of(call, scale, in, out));
  for (int64_t o = 0; o < out; ++o) {
    const float place = step * (static_cast<float>(o) + (exact ? 0.5F : 0.0F));
    places.push_back(std::clamp<int64_t>(static_cast<int64_t>(std::floor(place)), 0, in - 1));
  }
  return places;
}

std::vector<Value> resample_nearest(Graph& g, const Call& call, size_t rank, bool exact) {
  Value x = call.tensor(0);
  const size_t lead = x.dims.size() - rank;
  for (size_t i = 0; i < rank; ++i) {
    const auto places = nearest(call, 2 + i, exact, x.dims[lead + i], call.out().dims[lead + i]);
    x = g.index_select(x, vector(g, places), static_cast<int64_t>(lead + i));
  }
  return {x};
}

std::vector<Value> resample_nearest_backward(Graph& g, const Call& call, size_t rank, bool exact) {
  const Dims in = last(call.ints(2), rank);
  const Dims out = last(call.tensor(0).dims, rank);
  return {along_all(g, call.tensor(0), in, out, true, [&](size_t i, int64_t n, int64_t m) {
    const auto places = nearest(call, 3 + i, exact, n, m);
    Weights weights(m, n);
    for (int64_t o = 0; o < m; ++o) {
      weights.add(o, places[at(o)], 1);
    }
    return weights;
  })};
}

}  // namespace

TNX_LOWER("avg_pool2d", { return average_pool(g, call, 2, false); })
TNX_LOWER("avg_pool3d", { return average_pool(g, call, 3, false); })
TNX_LOWER("avg_pool2d_backward", { return average_pool(g, call, 2, true); })
TNX_LOWER("avg_pool3d_backward", { return average_pool(g, call, 3, true); })
TNX_LOWER("_adaptive_avg_pool2d", { return adaptive_pool(g, call, 2, false); })
TNX_LOWER("_adaptive_avg_pool3d", { return adaptive_pool(g, call, 3, false); })
TNX_LOWER("_adaptive_avg_pool2d_backward", { return adaptive_pool(g, call, 2, true); })
TNX_LOWER("_adaptive_avg_pool3d_backward", { return adaptive_pool(g, call, 3, true); })

// Scales decide about positions, on the host: they are in the key.
#define TNX_NEAREST(name, rank, exact) \
  TNX_LOWER_ROW(name, (Row{.known = {2, 3, 4}}), { return resample_nearest(g, call, rank, exact); })
#define TNX_NEAREST_BACKWARD(name, rank, exact)              \
  TNX_LOWER_ROW(name "_backward", (Row{.known = {3, 4, 5}}), \
                { return resample_nearest_backward(g, call, rank, exact); })
TNX_NEAREST("upsample_nearest1d", 1, false)
TNX_NEAREST("upsample_nearest2d", 2, false)
TNX_NEAREST("upsample_nearest3d", 3, false)
TNX_NEAREST("_upsample_nearest_exact1d", 1, true)
TNX_NEAREST("_upsample_nearest_exact2d", 2, true)
TNX_NEAREST("_upsample_nearest_exact3d", 3, true)
TNX_NEAREST_BACKWARD("upsample_nearest1d", 1, false)
TNX_NEAREST_BACKWARD("upsample_nearest2d", 2, false)
TNX_NEAREST_BACKWARD("upsample_nearest3d", 3, false)
TNX_NEAREST_BACKWARD("_upsample_nearest_exact1d", 1, true)
TNX_NEAREST_BACKWARD("_upsample_nearest_exact2d", 2, true)
TNX_NEAREST_BACKWARD("_upsample_nearest_exact3d", 3, true)

#define TNX_LINEAR(name, rank)                   \
  TNX_LOWER_ROW(name, (Row{.known = {3, 4, 5}}), \
                { return resample(g, call, rank, false, linear_weights); })
#define TNX_LINEAR_BACKWARD(name, rank)                      \
  TNX_LOWER_ROW(name "_backward", (Row{.known = {4, 5, 6}}), \
                { return resample(g, call, rank, true, linear_weights); })
TNX_LINEAR("upsample_linear1d", 1)
TNX_LINEAR("upsample_bilinear2d", 2)
TNX_LINEAR("upsample_trilinear3d", 3)
TNX_LINEAR_BACKWARD("upsample_linear1d", 1)
TNX_LINEAR_BACKWARD("upsample_bilinear2d", 2)
TNX_LINEAR_BACKWARD("upsample_trilinear3d", 3)
TNX_LOWER_ROW("upsample_bicubic2d", (Row{.known = {3, 4}}),
              { return resample(g, call, 2, false, cubic_weights); })
TNX_LOWER_ROW("upsample_bicubic2d_backward", (Row{.known = {4, 5}}),
              { return resample(g, call, 2, true, cubic_weights); })

// Values go to the positions of a plane that pooling gave; what has none is 0.
TNX_LOWER_ROW("max_unpool2d", (Row{.own_shapes = true}), {  // x, indices, output_size
  const Value& x = call.tensor(0);
  const Dims& size = call.ints(2);
  if (x.rank() < 3 || x.rank() > 4 || size.size() != 2 || call.tensor(1).dims != x.dims) {
    throw Unsupported("shapes that torch refuses");
  }
  Dims dims(x.dims.begin(), x.dims.end() - 2);
  const int64_t planes = count_of(dims);
  dims.insert(dims.end(), size.begin(), size.end());
  if (x.count() == 0) {
    return {g.zeros(x.type, dims)};
  }
  const int64_t each = x.count() / planes;
  Graph::GatherDims where;
  where.collapsed = {1};
  where.index_map = {1};
  where.index_vector = 2;
  where.operand_batching = {0};
  where.indices_batching = {0};
  return {g.reshape(
      g.scatter("", g.zeros(x.type, {planes, size[0] * size[1]}),
                g.reshape(call.tensor(1), {planes, each}), g.reshape(x, {planes, each}), where),
      dims)};
})

}  // namespace tnx
