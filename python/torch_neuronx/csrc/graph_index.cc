// SPDX-License-Identifier: Apache-2.0
// Graph: operations with indices, order, random bits.
#include <algorithm>

#include "python/torch_neuronx/csrc/graph_parts.h"

namespace tnx {

Value Graph::gather(const Value& operand, const Value& indices, const GatherDims& dims,
                    const Dims& slice_sizes) {
  Dims batch = indices.dims;
  if (dims.index_vector < indices.rank()) {
    batch.erase(batch.begin() + dims.index_vector);
  }
  Dims window;
  for (size_t i = 0; i < slice_sizes.size(); ++i) {
    const auto d = static_cast<int64_t>(i);
    const auto has = [&](const Dims& list) {
      return std::find(list.begin(), list.end(), d) != list.end();
    };
    if (!has(dims.collapsed) && !has(dims.operand_batching)) {
      window.push_back(slice_sizes[i]);
    }
  }
  Dims out;
  size_t from_batch = 0;
  size_t from_window = 0;
  for (size_t i = 0; i < batch.size() + window.size(); ++i) {
    const bool offset = std::find(dims.offset.begin(), dims.offset.end(),
                                  static_cast<int64_t>(i)) != dims.offset.end();
    out.push_back(offset ? window[from_window++] : batch[from_batch++]);
  }
  return op("gather", {operand, indices}, operand.type, out,
            Attributes()
                .ints(NRTCC_ATTR_OFFSET_DIMS, dims.offset)
                .ints(NRTCC_ATTR_COLLAPSED_DIMS, dims.collapsed)
                .ints(NRTCC_ATTR_INDEX_MAP, dims.index_map)
                .ints(NRTCC_ATTR_INDEX_VECTOR_DIM, {dims.index_vector})
                .ints(NRTCC_ATTR_SLICE_SIZES, slice_sizes)
                .ints(NRTCC_ATTR_OPERAND_BATCHING, dims.operand_batching)
                .ints(NRTCC_ATTR_INDICES_BATCHING, dims.indices_batching));
}

Value Graph::scatter(const char* opcode, const Value& operand, const Value& indices,
                     const Value& updates, const GatherDims& dims) {
  return op("scatter", {operand, indices, updates}, operand.type, operand.dims,
            Attributes()
                .ints(NRTCC_ATTR_OFFSET_DIMS, dims.offset)
                .ints(NRTCC_ATTR_COLLAPSED_DIMS, dims.collapsed)
                .ints(NRTCC_ATTR_INDEX_MAP, dims.index_map)
                .ints(NRTCC_ATTR_INDEX_VECTOR_DIM, {dims.index_vector})
                .ints(NRTCC_ATTR_OPERAND_BATCHING, dims.operand_batching)
                .ints(NRTCC_ATTR_INDICES_BATCHING, dims.indices_batching)
                .ints(NRTCC_ATTR_CALLED, {combiner(opcode, operand.type)}));
}

Value Graph::take_along(const Value& x, const Value& index, int64_t dim) {
  const int64_t at = wrap(dim, x.rank());
  // torch lets the index be smaller than x in the other dimensions.
  Dims limit = index.dims;
  limit[static_cast<size_t>(at)] = x.dims[static_cast<size_t>(at)];
  const Value source = slice(x, Dims(x.dims.size(), 0), limit);
  GatherDims dims;
  dims.collapsed = {at};
  dims.index_map = {at};
  dims.index_vector = x.rank();
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != at) {
      dims.operand_batching.push_back(d);
      dims.indices_batching.push_back(d);
    }
  }
  return gather(source, index, dims, Dims(x.dims.size(), 1));
}

Value Graph::index_select(const Value& x, const Value& index, int64_t dim) {
  const int64_t at = wrap(dim, x.rank());
  GatherDims dims;
  dims.collapsed = {at};
  dims.index_map = {at};
  dims.index_vector = 1;
  Dims sizes = x.dims;
  sizes[static_cast<size_t>(at)] = 1;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != at) {
      dims.offset.push_back(d);
    }
  }
  return gather(x, index, dims, sizes);
}

Value Graph::dynamic_slice(const Value& x, const std::vector<Value>& starts, const Dims& sizes) {
  std::vector<Value> operands = {x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return op("dynamic-slice", operands, x.type, sizes,
            Attributes().ints(NRTCC_ATTR_SLICE_SIZES, sizes));
}

Value Graph::dynamic_update(const Value& x, const Value& update, const std::vector<Value>& starts) {
  std::vector<Value> operands = {x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return op("dynamic-update-slice", operands, x.type, x.dims);
}

// ---- order --------------------------------------------------------------------------------------

std::vector<Value> Graph::sort(const std::vector<Value>& operands, int64_t dim, bool descending) {
  std::vector<std::pair<Type, Dims>> scalars;
  std::vector<std::pair<Type, Dims>> results;
  for (const Value& operand : operands) {
    scalars.insert(scalars.end(), 2, {operand.type, {}});
    results.emplace_back(operand.type, operand.dims);
  }
  const Type key = operands[0].type;
  const nrtcc_computation_t before = computation(scalars, [&](const std::vector<Value>& p) {
    const Value& a = descending ? p[1] : p[0];
    const Value& b = descending ? p[0] : p[1];
    Value less = compare("LT", a, b);
    if (is_float(key)) {  // torch: a NaN is larger than every number
      less = binary("or", less, binary("and", is_nan(b), logical_not(is_nan(a))));
    }
    return less;
  });
  return op_many("sort", operands, results,
                 Attributes()
                     .ints(NRTCC_ATTR_DIMENSIONS, {wrap(dim, operands[0].rank())})
                     .ints(NRTCC_ATTR_CALLED, {before})
                     .flag(NRTCC_ATTR_STABLE));
}

std::pair<Value, Value> Graph::topk(const Value& x, int64_t k, bool largest) {
  Dims dims = x.dims;
  dims.back() = k;
  Attributes attributes;
  attributes.ints(NRTCC_ATTR_K, {k});
  if (largest) {
    attributes.flag(NRTCC_ATTR_LARGEST);
  }
  const auto both = op_many("topk", {x}, {{x.type, dims}, {kS32, dims}}, attributes);
  return {both[0], both[1]};
}

Value Graph::random_bits(const Value& state, Type type, const Dims& dims) {
  return op_many("rng-bit-generator", {state}, {{kU64, {2}}, {type, dims}},
                 Attributes().ints(NRTCC_ATTR_RNG_ALGORITHM, {2}))[1];
}

std::vector<Value> Graph::while_loop(
    const std::vector<Value>& state,
    const std::function<Value(const std::vector<Value>&)>& condition,
    const std::function<std::vector<Value>(const std::vector<Value>&)>& body) {
  std::vector<nrtcc_shape_t> elements;
  for (const Value& value : state) {
    elements.push_back(
        {value.type, static_cast<int32_t>(value.dims.size()), value.dims.data(), nullptr});
  }
  const nrtcc_shape_t shape{NRTCC_TUPLE, static_cast<int32_t>(elements.size()), nullptr,
                            elements.data()};
  const auto emit = [&](const char* opcode, const std::vector<nrtcc_value_t>& ids,
                        const std::vector<nrtcc_attr_t>& rows) {
    nrtcc_value_t id = -1;
    must(compiler().nrtcc_op(graph_, current_, compiler().nrtcc_opcode(opcode), ids.data(),
                             static_cast<int32_t>(ids.size()), &shape, rows.data(),
                             static_cast<int32_t>(rows.size()), &id));
    return id;
  };
  const auto tuple_of = [&](const std::vector<Value>& values) {
    std::vector<nrtcc_value_t> ids;
    for (const Value& value : values) {
      ids.push_back(value.id);
    }
    return emit("tuple", ids, {});
  };
  const auto elements_of = [&](nrtcc_value_t id) {
    std::vector<Value> values;
    const Value tuple{id, current_, NRTCC_TUPLE, {}};
    for (size_t i = 0; i < state.size(); ++i) {
      values.push_back(op("get-tuple-element", {tuple}, state[i].type, state[i].dims,
                          Attributes().ints(NRTCC_ATTR_TUPLE_INDEX, {static_cast<int64_t>(i)})));
    }
    return values;
  };
  const auto region = [&](const std::function<nrtcc_value_t(const std::vector<Value>&)>& make) {
    nrtcc_computation_t number = 0;
    must(compiler().nrtcc_computation(graph_, "", &number));
    const nrtcc_computation_t before = std::exchange(current_, number);
    const int64_t zero = 0;
    const nrtcc_value_t parameter =
        emit("parameter", {}, {{NRTCC_ATTR_PARAMETER_NUMBER, 1, &zero, nullptr, 0}});
    must(compiler().nrtcc_set_root(graph_, number, make(elements_of(parameter))));
    current_ = before;
    return number;
  };
  const nrtcc_computation_t test =
      region([&](const std::vector<Value>& values) { return condition(values).id; });
  const nrtcc_computation_t step =
      region([&](const std::vector<Value>& values) { return tuple_of(body(values)); });
  const nrtcc_value_t start = tuple_of(state);
  const int64_t called[] = {test, step};
  return elements_of(emit("while", {start}, {{NRTCC_ATTR_CALLED, 2, called, nullptr, 0}}));
}

}  // namespace tnx
