// SPDX-License-Identifier: Apache-2.0
// Reading and writing by index. An index outside its dimension reads the nearest element and writes
// nothing; those that are known on the host are refused before (aten/indexing.cc).
#include <algorithm>

#include "python/torch_neuronx/csrc/lower/lowering.h"
#include "python/torch_neuronx/csrc/lower/scan.h"

namespace tnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Counted from the front: -1 is the last of n.
Value from_front(Graph& g, const Value& index, int64_t n) {
  const Value i = g.convert(index, kS64);
  return g.select(g.compare("LT", i, g.integer(kS64, 0)), g.add(i, g.integer(kS64, n)), i);
}

Dims common_dims(const std::vector<Value>& values) {
  Dims dims;
  for (const Value& value : values) {
    if (value.dims.size() > dims.size()) {
      dims.insert(dims.begin(), value.dims.size() - dims.size(), 1);
    }
    for (size_t i = 0; i < value.dims.size(); ++i) {
      int64_t& size = dims[dims.size() - value.dims.size() + i];
      size = value.dims[i] == 1 ? size : value.dims[i];
    }
  }
  return dims;
}

// x[indices] as one gather or scatter: where the indices go and what is left of x beside them.
struct Place {
  Value indices;  // [.., number of indexed dimensions]
  Graph::GatherDims dims;
  Dims sizes;   // of a slice
  Dims result;  // of x[indices]
};

Place place_of(Graph& g, const Call& call, const Dims& dims,
               const std::vector<std::optional<Value>>& list) {
  Place place;
  std::vector<Value> indices;
  for (size_t d = 0; d < list.size(); ++d) {
    if (!list[d]) {
      continue;
    }
    if (list[d]->type == kPred || list[d]->type == kU8) {
      throw Unsupported("a mask among indices");
    }
    place.dims.collapsed.push_back(static_cast<int64_t>(d));
    if (call.name().rfind("_unsafe", 0) != 0) {
      call.check_index(g, *list[d], static_cast<int64_t>(d), dims[d]);
    }
    indices.push_back(from_front(g, *list[d], dims[d]));
  }
  const Dims& indexed = place.dims.collapsed;
  place.dims.index_map = indexed;
  const Dims batch = common_dims(indices);
  Dims column = batch;
  column.push_back(1);
  for (Value& index : indices) {
    index = g.reshape(g.expand(index, batch), column);
  }
  place.indices = g.concat(indices, -1);
  place.dims.index_vector = static_cast<int64_t>(batch.size());
  // Indices side by side put their dimensions where they were; others put them first.
  const bool together =
      indexed.back() - indexed.front() + 1 == static_cast<int64_t>(indexed.size());
  const int64_t front = together ? indexed.front() : 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool taken =
        std::find(indexed.begin(), indexed.end(), static_cast<int64_t>(d)) != indexed.end();
    place.sizes.push_back(taken ? 1 : dims[d]);
    if (taken) {
      continue;
    }
    if (static_cast<int64_t>(place.result.size()) == front) {
      place.result.insert(place.result.end(), batch.begin(), batch.end());
    }
    place.dims.offset.push_back(static_cast<int64_t>(place.result.size()));
    place.result.push_back(dims[d]);
  }
  if (place.result.size() < place.dims.offset.size() + batch.size()) {
    place.result.insert(place.result.end(), batch.begin(), batch.end());
  }
  return place;
}

std::vector<Value> index(Graph& g, const Call& call) {
  const Value& x = call.tensor(0);
  const auto& list = call.optional_tensors(1);
  if (std::none_of(list.begin(), list.end(), [](const auto& i) { return i.has_value(); })) {
    return {x};
  }
  const Place place = place_of(g, call, x.dims, list);
  if (count_of(place.result) == 0 || x.count() == 0) {
    return {g.zeros(x.type, place.result)};
  }
  return {g.gather(x, place.indices, place.dims, place.sizes)};
}

// x with `value` where the only index, a mask, is true: no count of true elements is needed, since
// the caller keeps masks only where values are the same for all of them.
Value put_mask(Graph& g, const Value& x, const Value& mask, size_t position, Value value,
               bool accumulate) {
  const size_t behind = x.dims.size() - position - mask.dims.size();
  Dims dims(value.dims.end() - static_cast<std::ptrdiff_t>(std::min(behind, value.dims.size())),
            value.dims.end());
  if (value.dims.size() > behind) {  // [before.., 1 for the true ones, behind..]
    dims.insert(dims.begin(), mask.dims.size(), 1);
    dims.insert(dims.begin(), value.dims.begin(),
                value.dims.end() - static_cast<std::ptrdiff_t>(behind) - 1);
  }
  value = g.reshape(value, dims);
  Dims map(mask.dims.size());
  for (size_t i = 0; i < map.size(); ++i) {
    map[i] = static_cast<int64_t>(position + i);
  }
  const Value where = g.broadcast(g.convert(mask, kPred), x.dims, map);
  return g.select(where, accumulate ? g.binary(x.type == kPred ? "or" : "add", x, value) : value,
                  x);
}

// self, indices, values, accumulate
std::vector<Value> index_put(Graph& g, const Call& call) {
  const Type type = call.tensor(0).type;
  const bool accumulate = call.has(3) && call.flag(3);
  const Type compute = accumulate ? compute_type(type) : type;
  const Value x = g.convert(call.tensor(0), compute);
  const Value values = g.convert(call.tensor(2), compute);
  const auto& list = call.optional_tensors(1);
  std::vector<size_t> given;
  for (size_t d = 0; d < list.size(); ++d) {
    if (list[d]) {
      given.push_back(d);
    }
  }
  if (given.empty()) {
    return {accumulate ? g.add(x, values) : g.expand(values, x.dims)};
  }
  const Value& first = *list[given[0]];
  if (given.size() == 1 && (first.type == kPred || first.type == kU8)) {
    return {put_mask(g, x, first, given[0], values, accumulate)};
  }
  const Place place = place_of(g, call, x.dims, list);
  if (count_of(place.result) == 0) {
    return {x};
  }
  const char* how = !accumulate ? "" : type == kPred ? "or" : "add";
  Value updates = values;  // a longer shape may lead with ones
  while (updates.rank() > static_cast<int64_t>(place.result.size()) && updates.dims[0] == 1) {
    updates = g.squeeze(updates, 0);
  }
  return {g.scatter(how, x, place.indices, g.expand(updates, place.result), place.dims)};
}

}  // namespace

TNX_LOWER_ROW("index.Tensor", (Row{.own_device_indices = true, .index_list = 1}),
              { return index(g, call); })
TNX_LOWER_ROW("_unsafe_index.Tensor", (Row{.own_device_indices = true, .index_list = 1}),
              { return index(g, call); })
TNX_LOWER_ROW("index_put", (Row{.own_device_indices = true, .index_list = 1}),
              { return index_put(g, call); })
TNX_LOWER_ROW("_index_put_impl_", (Row{.own_device_indices = true, .index_list = 1}),
              { return index_put(g, call); })
TNX_LOWER_ROW("_unsafe_index_put", (Row{.own_device_indices = true, .index_list = 1}),
              { return index_put(g, call); })

// ---- along one dimension, an index for each element
// -----------------------------------------------

namespace {

Value at_least_1d(Graph& g, const Value& x) { return x.rank() == 0 ? g.reshape(x, {1}) : x; }

// self[.., index[.., i, ..], ..] op= updates[.., i, ..]; the index may be smaller than self
// elsewhere.
Value scatter_along(Graph& g, const char* opcode, const Value& self, const Value& index,
                    const Value& updates, int64_t dim) {
  Dims limit = index.dims;
  limit[at(dim)] = self.dims[at(dim)];
  const Dims start(self.dims.size(), 0);
  const Value part = g.slice(self, start, limit);
  Graph::GatherDims dims;
  dims.collapsed = {dim};
  dims.index_map = {dim};
  dims.index_vector = self.rank();
  for (int64_t d = 0; d < self.rank(); ++d) {
    if (d != dim) {
      dims.operand_batching.push_back(d);
      dims.indices_batching.push_back(d);
    }
  }
  const Value result = g.scatter(opcode, part, index, updates, dims);
  if (part.dims == self.dims) {
    return result;
  }
  return g.dynamic_update(self, result, std::vector<Value>(self.dims.size(), g.integer(kS64, 0)));
}

struct Along {
  Value self;
  Value index;
  int64_t dim = 0;
};

Along along(Graph& g, const Call& call, Type type) {  // self, dim, index
  Along a;
  a.self = at_least_1d(g, g.convert(call.tensor(0), type));
  a.index = g.convert(at_least_1d(g, call.tensor(2)), kS64);
  a.dim = wrap_dim(call.integer(1), a.self.rank());
  const int64_t n = a.self.dims[at(a.dim)];
  call.check_range(g, a.index, 0, n,
                   "index {} is out of bounds for dimension " + std::to_string(a.dim) +
                       " with size " + std::to_string(n),
                   false);
  return a;
}

// What reduces before an element has been reached.
Value start_of(Graph& g, const std::string& how, Type type) {
  return how == "amax"   ? g.lowest(type)
         : how == "amin" ? g.highest(type)
         : how == "prod" ? g.constant(type, 1)
                         : g.constant(type, 0);
}

const char* opcode_of(const std::string& how, Type type) {
  if (how == "sum" || how == "mean" || how == "add") {
    return type == kPred ? "or" : "add";
  }
  if (how == "prod" || how == "multiply") {
    return type == kPred ? "and" : "multiply";
  }
  return how == "amax" ? "maximum" : "minimum";
}

Value mean_of(Graph& g, const Value& sum, const Value& count) {
  if (is_float(sum.type)) {
    return g.div(sum, count);
  }
  const Value q = g.div(sum, count);  // towards minus infinity
  const Value rest = g.sub(sum, g.mul(q, count));
  return g.select(g.compare("LT", rest, g.like(rest, 0)), g.sub(q, g.like(q, 1)), q);
}

// `put(opcode, self, updates)` scatters; joins `updates` to self or to nothing.
template <class Put>
Value scatter_joined(Graph& g, const Value& self, const Value& updates, const std::string& how,
                     bool include_self, Put&& put) {
  Value from = self;
  if (!include_self) {
    from = put("", self, g.expand(start_of(g, how, self.type), updates.dims));
  }
  const Value joined = put(opcode_of(how, self.type), from, updates);
  if (how != "mean") {
    return joined;
  }
  const Value ones = g.full(self.type, updates.dims, 1);
  const Value count = put("add", g.like(self, include_self ? 1 : 0), ones);
  return mean_of(g, joined, g.max(count, g.like(count, 1)));
}

// how: "" sets. Argument 3 is a tensor or a number.
std::vector<Value> scatter(Graph& g, const Call& call, const std::string& how,
                           bool include_self = true) {
  const Type type = call.tensor(0).type;
  const Type compute = how.empty() ? type : compute_type(type);
  const Along a = along(g, call, compute);
  if (a.index.count() == 0) {
    return {g.reshape(a.self, call.tensor(0).dims)};
  }
  Value updates = call.operand(g, 3, compute);
  if (call.is_tensor(3)) {
    updates = at_least_1d(g, updates);
    updates = g.slice(updates, Dims(updates.dims.size(), 0), a.index.dims);
  } else {
    updates = g.expand(updates, a.index.dims);
  }
  const auto put = [&](const char* opcode, const Value& self, const Value& values) {
    return scatter_along(g, opcode, self, a.index, values, a.dim);
  };
  const Value result = how.empty() ? put("", a.self, updates)
                                   : scatter_joined(g, a.self, updates, how, include_self, put);
  return {g.reshape(result, call.tensor(0).dims)};
}

}  // namespace

TNX_LOWER("gather", {
  const Along a = along(g, call, call.tensor(0).type);
  return {g.reshape(g.take_along(a.self, a.index, a.dim), call.out().dims)};
})
TNX_LOWER("scatter.src", { return scatter(g, call, ""); })
TNX_LOWER("scatter.value", { return scatter(g, call, ""); })
TNX_LOWER("scatter.reduce", { return scatter(g, call, call.text(4)); })
TNX_LOWER("scatter.value_reduce", { return scatter(g, call, call.text(4)); })
TNX_LOWER("scatter_add", { return scatter(g, call, "add"); })
TNX_LOWER("scatter_reduce.two", { return scatter(g, call, call.text(4), call.flag(5)); })

// ---- along one dimension, an index for each slice
// -------------------------------------------------

namespace {

Graph::GatherDims slices_at(const Value& x, int64_t dim) {
  Graph::GatherDims dims;
  dims.collapsed = {dim};
  dims.index_map = {dim};
  dims.index_vector = 1;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != dim) {
      dims.offset.push_back(d);
    }
  }
  return dims;
}

// self, dim, index, then a source (or value) with a slice for each index.
struct Slices {
  Value self;
  Value index;
  Value source;
  int64_t dim = 0;
};

Slices slices(Graph& g, const Call& call, Type type) {
  Slices s;
  s.self = at_least_1d(g, g.convert(call.tensor(0), type));
  s.dim = wrap_dim(call.integer(1), s.self.rank());
  call.check_index(g, call.tensor(2), s.dim, s.self.dims[at(s.dim)]);
  s.index = from_front(g, at_least_1d(g, call.tensor(2)), s.self.dims[at(s.dim)]);
  Dims dims = s.self.dims;
  dims[at(s.dim)] = s.index.count();
  if (call.name() == "index_add" && call.tensor(3).rank() != call.tensor(0).rank()) {
    throw Error(
        "source tensor shape must match self tensor shape, excluding the specified "
        "dimension: " +
        std::to_string(call.tensor(3).rank()) + " dimensions where self has " +
        std::to_string(call.tensor(0).rank()));
  }
  s.source = call.operand(g, 3, type);
  s.source =
      s.source.count() == count_of(dims) ? g.reshape(s.source, dims) : g.expand(s.source, dims);
  return s;
}

std::vector<Value> put_slices(Graph& g, const Call& call, const std::string& how,
                              bool include_self = true, int alpha = -1) {
  const Type compute = how.empty() ? call.tensor(0).type : compute_type(call.tensor(0).type);
  Slices s = slices(g, call, compute);
  if (s.index.count() == 0) {
    return {g.reshape(s.self, call.tensor(0).dims)};
  }
  if (alpha >= 0) {
    s.source = g.binary(compute == kPred ? "and" : "multiply", s.source,
                        call.scalar(g, static_cast<size_t>(alpha), compute));
  }
  const Graph::GatherDims dims = slices_at(s.self, s.dim);
  const auto put = [&](const char* opcode, const Value& self, const Value& values) {
    return g.scatter(opcode, self, s.index, values, dims);
  };
  const Value result = how.empty() ? put("", s.self, s.source)
                                   : scatter_joined(g, s.self, s.source, how, include_self, put);
  return {g.reshape(result, call.tensor(0).dims)};
}

}  // namespace

TNX_LOWER_ROW("index_select", (Row{.own_shapes = true}), {
  const Value x = at_least_1d(g, call.tensor(0));
  const Value& given = call.tensor(2);
  const int64_t dim = wrap_dim(call.integer(1), x.rank());
  if (dim < 0 || dim >= x.rank()) {
    throw Error("Dimension out of range (expected to be in range of [" + std::to_string(-x.rank()) +
                ", " + std::to_string(x.rank() - 1) + "], but got " +
                std::to_string(call.integer(1)) + ")");
  }
  if (given.rank() > 1 || (given.type != kS32 && given.type != kS64)) {
    throw Error("index_select(): Index is supposed to be a vector of int32 or int64");
  }
  const Value i = at_least_1d(g, given);
  call.check_range(g, i, 0, x.dims[at(dim)], "index out of range in self: {}");
  Dims dims = x.dims;
  dims[at(dim)] = i.count();
  if (count_of(dims) == 0) {
    return {g.zeros(x.type, dims)};
  }
  const Value result = g.index_select(x, g.convert(i, kS64), dim);
  return {call.tensor(0).rank() == 0 ? g.reshape(result, {}) : result};
})
TNX_LOWER("index_add", { return put_slices(g, call, "add", true, 4); })
TNX_LOWER("index_copy", { return put_slices(g, call, ""); })
TNX_LOWER("index_fill.int_Scalar", { return put_slices(g, call, ""); })
TNX_LOWER("index_fill.int_Tensor", { return put_slices(g, call, ""); })
TNX_LOWER("index_reduce", { return put_slices(g, call, call.text(4), call.flag(5)); })

// ---- of the flat tensor
// ---------------------------------------------------------------------------

namespace {

Value flat(Graph& g, const Value& x) { return g.reshape(x, {x.count()}); }

// How many true elements come before each one.
Value rank_of_true(Graph& g, const Value& mask) {
  const Value ones = g.convert(flat(g, mask), kS64);
  return g.sub(scan(g, "add", ones, 0, g.integer(kS64, 0)), ones);
}

// self, size, fill_value: positions of what isn't 0, row by row.
std::vector<Value> nonzero_static(Graph& g, const Call& call) {
  const Value& x = call.tensor(0);
  const int64_t size = call.integer(1);
  const int64_t fill = call.integer_or(2, -1);
  if (size < 0) {
    throw Error("nonzero_static: 'size' must be an non-negative integer");
  }
  if (size == 0 || x.rank() == 0 || x.count() == 0) {
    const Value none = g.integer(kS64, fill);
    return {g.broadcast(none, {size, x.rank()}, {})};
  }
  const Value mask = flat(g, g.convert(x, kPred));
  const int64_t n = mask.count();
  // Beyond the result: not written.
  const Value target = g.select(mask, rank_of_true(g, mask), g.integer(kS64, std::max(n, size)));
  Graph::GatherDims dims;
  dims.collapsed = {0};
  dims.index_map = {0};
  dims.index_vector = 1;
  const Value position =
      g.scatter("", g.full(kS64, {size}, -1), target, g.iota(kS64, {n}, 0), dims);
  std::vector<Value> columns;
  int64_t stride = n;
  for (const int64_t dim : x.dims) {
    stride /= dim;
    const Value i =
        g.binary("remainder", g.div(position, g.like(position, static_cast<double>(stride))),
                 g.like(position, static_cast<double>(dim)));
    columns.push_back(g.unsqueeze(
        g.select(g.compare("LT", position, g.like(position, 0)), g.integer(kS64, fill), i), 1));
  }
  return {g.concat(columns, 1)};
}

std::vector<Value> put(Graph& g, const Call& call) {  // self, index, source, accumulate
  const Type type = call.tensor(0).type;
  const Type compute = call.flag(3) ? compute_type(type) : type;
  const Value self = flat(g, g.convert(call.tensor(0), compute));
  call.check_range(g, call.tensor(1), -self.count(), self.count(),
                   "out of range: tried to access index {} on a tensor of " +
                       std::to_string(self.count()) + " elements.");
  const Value i = from_front(g, flat(g, call.tensor(1)), self.count());
  if (i.count() == 0) {
    return {call.tensor(0)};
  }
  const Value source = flat(g, g.convert(call.tensor(2), compute));
  const char* how = call.flag(3) ? opcode_of("sum", compute) : "";
  return {g.reshape(g.scatter(how, self, i, source, slices_at(self, 0)), call.tensor(0).dims)};
}

}  // namespace

TNX_LOWER("take", {
  const Value x = flat(g, call.tensor(0));
  call.check_range(g, call.tensor(1), -x.count(), x.count(),
                   "out of range: tried to access index {} on a tensor of " +
                       std::to_string(x.count()) + " elements.");
  const Value i = from_front(g, flat(g, call.tensor(1)), x.count());
  return {g.reshape(g.index_select(x, i, 0), call.out().dims)};
})
TNX_LOWER("put", { return put(g, call); })
TNX_LOWER_ROW("nonzero_static", (Row{.own_shapes = true}), { return nonzero_static(g, call); })
TNX_LOWER("masked_scatter", {
  if (call.tensor(1).type != kPred) {
    throw Error(
        std::string("masked_scatter_ only supports boolean masks, but got mask with dtype ") +
        name_of(call.tensor(1).type));
  }
  const Value mask = g.expand(g.convert(call.tensor(1), kPred), call.out().dims);
  const Value self = g.expand(call.tensor(0), call.out().dims);
  const Value wanted = g.sum(g.convert(mask, kS64), all_dims(mask));
  call.check(g, g.compare("GT", wanted, g.integer(kS64, call.tensor(2).count())),
             "Number of elements of source < number of ones in mask, {}", false, wanted);
  if (call.tensor(2).count() == 0) {
    return {self};
  }
  const Value source = g.index_select(flat(g, call.tensor(2)), rank_of_true(g, mask), 0);
  return {g.select(mask, g.reshape(source, self.dims), self)};
})

}  // namespace tnx
