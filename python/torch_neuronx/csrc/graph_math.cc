// SPDX-License-Identifier: Apache-2.0
// Graph: operations on elements, reductions, products.
#include <algorithm>
#include <limits>
#include <numeric>

#include "python/torch_neuronx/csrc/graph_parts.h"

namespace tnx {
namespace {

Dims broadcast_dims(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims out = longer;
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& size = out[out.size() - 1 - i];
    const int64_t other = shorter[shorter.size() - 1 - i];
    if (size == 1) {
      size = other;
    } else if (other != 1 && other != size) {
      throw Error("shapes do not broadcast");
    }
  }
  return out;
}

}  // namespace

Value Graph::unary(const char* opcode, const Value& x) { return op(opcode, {x}, x.type, x.dims); }

Value Graph::binary(const char* opcode, const Value& a, const Value& b) {
  const Dims dims = broadcast_dims(a.dims, b.dims);
  return op(opcode, {expand(a, dims), expand(b, dims)}, a.type, dims);
}

Value Graph::compare(const char* direction, const Value& a, const Value& b) {
  const Dims dims = broadcast_dims(a.dims, b.dims);
  return op("compare", {expand(a, dims), expand(b, dims)}, kPred, dims,
            Attributes().text(NRTCC_ATTR_COMPARISON, direction));
}

Value Graph::select(const Value& condition, const Value& yes, const Value& no) {
  const Dims dims = broadcast_dims(broadcast_dims(condition.dims, yes.dims), no.dims);
  return op("select", {expand(condition, dims), expand(yes, dims), expand(no, dims)}, yes.type,
            dims);
}

Value Graph::is_finite(const Value& x) { return op("is-finite", {x}, kPred, x.dims); }

// ---- reductions ---------------------------------------------------------------------------------

nrtcc_computation_t Graph::computation(
    const std::vector<std::pair<Type, Dims>>& parameters,
    const std::function<Value(const std::vector<Value>&)>& body) {
  nrtcc_computation_t number = 0;
  must(compiler().nrtcc_computation(graph_, "", &number));
  const nrtcc_computation_t before = std::exchange(current_, number);
  std::vector<Value> values;
  for (size_t i = 0; i < parameters.size(); ++i) {
    values.push_back(
        parameter_of(number, static_cast<int>(i), parameters[i].first, parameters[i].second));
  }
  const Value root = body(values);
  must(compiler().nrtcc_set_root(graph_, number, root.id));
  current_ = before;
  return number;
}

nrtcc_computation_t Graph::combiner(const std::string& opcode, Type type) {
  const auto [at, added] = combiners_.try_emplace({opcode, type}, 0);
  if (added) {
    at->second = computation({{type, {}}, {type, {}}}, [&](const std::vector<Value>& p) {
      return opcode.empty() ? p[1] : binary(opcode.c_str(), p[0], p[1]);
    });
  }
  return at->second;
}

Value Graph::reduce(const char* opcode, const Value& x, const Dims& dims, bool keep) {
  Dims at;
  for (const int64_t dim : dims) {
    at.push_back(wrap(dim, x.rank()));
  }
  std::sort(at.begin(), at.end());
  Dims kept = x.dims;
  Dims out;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (std::find(at.begin(), at.end(), static_cast<int64_t>(i)) == at.end()) {
      out.push_back(x.dims[i]);
    } else {
      kept[i] = 1;
    }
  }
  Value result = x;
  if (!at.empty()) {
    const std::string name = opcode;
    const Value init = name == "add" || name == "or"         ? constant(x.type, 0)
                       : name == "multiply" || name == "and" ? constant(x.type, 1)
                       : name == "maximum"                   ? lowest(x.type)
                                                             : highest(x.type);
    result = op("reduce", {x, init}, x.type, out,
                Attributes()
                    .ints(NRTCC_ATTR_DIMENSIONS, at)
                    .ints(NRTCC_ATTR_CALLED, {combiner(name, x.type)}));
  }
  return keep ? reshape(result, kept) : result;
}

std::pair<Value, Value> Graph::extreme(bool largest, const Value& x, int64_t dim, bool keep) {
  const int64_t at = wrap(dim, x.rank());
  const int64_t n = x.dims[static_cast<size_t>(at)];
  // Two plain reductions: the value, in which a NaN wins, and the first position that has it.
  Value best = reduce(largest ? "maximum" : "minimum", x, {at}, true);
  const Type type = n < std::numeric_limits<int32_t>::max() ? kS32 : kS64;
  const Value top = expand(best, x.dims);
  Value has = compare("EQ", x, top);
  if (is_float(x.type)) {
    has = binary("or", has, binary("and", is_nan(x), is_nan(top)));
  }
  const Value positions =
      select(has, iota(type, x.dims, at), broadcast(integer(type, n), x.dims, {}));
  Value position = convert(reduce("minimum", positions, {at}, true), kS64);
  if (!keep) {
    best = squeeze(best, at);
    position = squeeze(position, at);
  }
  return {best, position};
}

Value Graph::reduce_window(const char* opcode, const Value& x, const Value& init,
                           const std::vector<Window>& window) {
  Dims dims;
  for (size_t i = 0; i < window.size(); ++i) {
    dims.push_back(window[i].outputs(x.dims[i]));
  }
  return op("reduce-window", {x, init}, x.type, dims,
            Attributes().window(window).ints(NRTCC_ATTR_CALLED, {combiner(opcode, x.type)}));
}

Value Graph::select_and_scatter_max(const Value& operand, const std::vector<Window>& window,
                                    const Value& source, const Value& init) {
  const nrtcc_computation_t choose =
      computation({{operand.type, {}}, {operand.type, {}}},
                  [&](const std::vector<Value>& p) { return compare("GE", p[0], p[1]); });
  return op(
      "select-and-scatter", {operand, source, init}, operand.type, operand.dims,
      Attributes().window(window).ints(NRTCC_ATTR_CALLED, {choose, combiner("add", operand.type)}));
}

// ---- matrices -----------------------------------------------------------------------------------

Value Graph::dot(const Value& a, const Value& b, const Dims& a_contract, const Dims& b_contract,
                 const Dims& a_batch, const Dims& b_batch, Type type) {
  Dims dims;
  for (const int64_t d : a_batch) {
    dims.push_back(a.dims[static_cast<size_t>(d)]);
  }
  const auto add_free = [&](const Value& x, const Dims& contract, const Dims& batch) {
    for (int64_t d = 0; d < x.rank(); ++d) {
      if (std::find(contract.begin(), contract.end(), d) == contract.end() &&
          std::find(batch.begin(), batch.end(), d) == batch.end()) {
        dims.push_back(x.dims[static_cast<size_t>(d)]);
      }
    }
  };
  add_free(a, a_contract, a_batch);
  add_free(b, b_contract, b_batch);
  return op("dot", {a, b}, type, dims,
            Attributes()
                .ints(NRTCC_ATTR_LHS_CONTRACTING, a_contract)
                .ints(NRTCC_ATTR_RHS_CONTRACTING, b_contract)
                .ints(NRTCC_ATTR_LHS_BATCH, a_batch)
                .ints(NRTCC_ATTR_RHS_BATCH, b_batch));
}

Value Graph::matmul(const Value& a, const Value& b, Type type) {
  Dims batch(static_cast<size_t>(a.rank() - 2));
  std::iota(batch.begin(), batch.end(), 0);
  return dot(a, b, {a.rank() - 1}, {b.rank() - 2}, batch, batch, type);
}

Value Graph::conv(const Value& input, const Value& kernel, const ConvDims& dims,
                  const std::vector<Window>& window, int64_t groups, int64_t batch_groups,
                  Type type) {
  Dims numbers = dims.input;
  numbers.insert(numbers.end(), dims.kernel.begin(), dims.kernel.end());
  numbers.insert(numbers.end(), dims.output.begin(), dims.output.end());
  const auto size = [](const Value& x, int64_t d) { return x.dims[static_cast<size_t>(d)]; };
  Dims out(dims.output.size());
  out[static_cast<size_t>(dims.output[0])] = size(input, dims.input[0]) / batch_groups;
  out[static_cast<size_t>(dims.output[1])] = size(kernel, dims.kernel[1]);
  for (size_t i = 0; i < window.size(); ++i) {
    out[static_cast<size_t>(dims.output[2 + i])] =
        window[i].outputs(size(input, dims.input[2 + i]));
  }
  return op("convolution", {input, kernel}, type, out,
            Attributes()
                .ints(NRTCC_ATTR_CONV_DIMS, numbers)
                .window(window)
                .ints(NRTCC_ATTR_GROUPS, {groups, batch_groups}));
}

Value Graph::triangular_solve(const Value& a, const Value& b, bool left, bool lower, bool unit,
                              bool transposed) {
  return op("triangular-solve", {a, b}, b.type, b.dims,
            Attributes().ints(NRTCC_ATTR_TRIANGLE, {left, lower, unit, transposed ? 2 : 1}));
}

}  // namespace tnx
