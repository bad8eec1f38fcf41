// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace tnx {
namespace {

void must(nrtcc_status_t status) {
  if (status != NRTCC_OK) {
    throw Error(compiler().nrtcc_last_error());
  }
}

int64_t wrap(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }

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

bool is_float(Type type) {
  switch (type) {
    case NRTCC_F16:
    case NRTCC_BF16:
    case NRTCC_F32:
    case NRTCC_F64:
    case NRTCC_F8E5M2:
    case NRTCC_F8E4M3FN:
    case NRTCC_F8E4M3:
      return true;
    default:
      return false;
  }
}

bool is_signed_integer(Type type) { return type >= NRTCC_S8 && type <= NRTCC_S64; }
bool is_integer(Type type) { return type >= NRTCC_S8 && type <= NRTCC_U64; }

int64_t bytes_of(Type type) {
  switch (type) {
    case NRTCC_PRED:
    case NRTCC_S8:
    case NRTCC_U8:
    case NRTCC_F8E5M2:
    case NRTCC_F8E4M3FN:
    case NRTCC_F8E4M3:
      return 1;
    case NRTCC_S16:
    case NRTCC_U16:
    case NRTCC_F16:
    case NRTCC_BF16:
      return 2;
    case NRTCC_S64:
    case NRTCC_U64:
    case NRTCC_F64:
      return 8;
    default:
      return 4;
  }
}

const char* name_of(Type type) {
  switch (type) {
    case NRTCC_PRED:
      return "pred";
    case NRTCC_S8:
      return "s8";
    case NRTCC_S16:
      return "s16";
    case NRTCC_S32:
      return "s32";
    case NRTCC_S64:
      return "s64";
    case NRTCC_U8:
      return "u8";
    case NRTCC_U16:
      return "u16";
    case NRTCC_U32:
      return "u32";
    case NRTCC_U64:
      return "u64";
    case NRTCC_F16:
      return "f16";
    case NRTCC_BF16:
      return "bf16";
    case NRTCC_F32:
      return "f32";
    case NRTCC_F64:
      return "f64";
    case NRTCC_F8E5M2:
      return "f8e5m2";
    case NRTCC_F8E4M3FN:
      return "f8e4m3fn";
    case NRTCC_F8E4M3:
      return "f8e4m3";
    default:
      return "?";
  }
}

Type compute_type(Type type) { return is_float(type) && bytes_of(type) < 4 ? kF32 : type; }

int64_t count_of(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    count *= dim;
  }
  return count;
}

int64_t Window::outputs(int64_t operand) const {
  const int64_t padded = (operand == 0 ? 0 : (operand - 1) * base_dilation + 1) + low + high;
  const int64_t extent = (size - 1) * dilation + 1;
  return padded < extent ? 0 : (padded - extent) / stride + 1;
}

// nrtcc_attr_t rows and what they point to.
class Graph::Attributes {
 public:
  Attributes() = default;
  Attributes& ints(nrtcc_attr_key_t key, Dims values) {
    kept_.push_back(std::move(values));
    rows_.push_back({key, static_cast<int32_t>(kept_.back().size()), nullptr, nullptr, 0});
    return *this;
  }
  Attributes& data(nrtcc_attr_key_t key, const void* bytes, size_t size) {
    kept_.emplace_back();
    rows_.push_back({key, 0, nullptr, bytes, size});
    return *this;
  }
  Attributes& text(nrtcc_attr_key_t key, const char* value) {
    return data(key, value, std::strlen(value));
  }
  Attributes& flag(nrtcc_attr_key_t key) { return ints(key, {}); }
  Attributes& window(const std::vector<Window>& window) {
    Dims numbers;
    for (const Window& w : window) {
      numbers.insert(numbers.end(), {w.size, w.stride, w.low, w.high, w.dilation, w.base_dilation,
                                     w.reversed ? 1 : 0});
    }
    return ints(NRTCC_ATTR_WINDOW, std::move(numbers));
  }
  std::vector<nrtcc_attr_t> rows() const {
    std::vector<nrtcc_attr_t> rows = rows_;
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].ints = kept_[i].data();
    }
    return rows;
  }

 private:
  std::vector<nrtcc_attr_t> rows_;
  std::vector<Dims> kept_;
};

Graph::Graph(const std::string& name) {
  must(compiler().nrtcc_graph_create(name.c_str(), &graph_));
}

Graph::~Graph() { compiler().nrtcc_graph_destroy(graph_); }

std::string Graph::text() const {
  char* text = nullptr;
  must(compiler().nrtcc_print(graph_, &text));
  std::string copy = text;
  compiler().nrtcc_free(text);
  return copy;
}

Value Graph::op(const char* opcode, const std::vector<Value>& operands, Type type, const Dims& dims,
                const Attributes& attributes) {
  std::vector<nrtcc_value_t> ids;
  ids.reserve(operands.size());
  for (const Value& operand : operands) {
    ids.push_back(operand.id);
  }
  const nrtcc_shape_t shape{type, static_cast<int32_t>(dims.size()), dims.data(), nullptr};
  const auto rows = attributes.rows();
  Value value{-1, current_, type, dims};
  must(compiler().nrtcc_op(graph_, current_, compiler().nrtcc_opcode(opcode), ids.data(),
                           static_cast<int32_t>(ids.size()), &shape, rows.data(),
                           static_cast<int32_t>(rows.size()), &value.id));
  return value;
}

Value Graph::op(const char* opcode, const std::vector<Value>& operands, Type type,
                const Dims& dims) {
  return op(opcode, operands, type, dims, Attributes());
}

std::vector<Value> Graph::op_many(const char* opcode, const std::vector<Value>& operands,
                                  const std::vector<std::pair<Type, Dims>>& results,
                                  const Attributes& attributes) {
  if (results.size() == 1) {
    return {op(opcode, operands, results[0].first, results[0].second, attributes)};
  }
  std::vector<nrtcc_value_t> ids;
  for (const Value& operand : operands) {
    ids.push_back(operand.id);
  }
  std::vector<nrtcc_shape_t> elements;
  for (const auto& [type, dims] : results) {
    elements.push_back({type, static_cast<int32_t>(dims.size()), dims.data(), nullptr});
  }
  const nrtcc_shape_t shape{NRTCC_TUPLE, static_cast<int32_t>(elements.size()), nullptr,
                            elements.data()};
  const auto rows = attributes.rows();
  Value tuple{-1, current_, NRTCC_TUPLE, {}};
  must(compiler().nrtcc_op(graph_, current_, compiler().nrtcc_opcode(opcode), ids.data(),
                           static_cast<int32_t>(ids.size()), &shape, rows.data(),
                           static_cast<int32_t>(rows.size()), &tuple.id));
  std::vector<Value> values;
  for (size_t i = 0; i < results.size(); ++i) {
    values.push_back(op("get-tuple-element", {tuple}, results[i].first, results[i].second,
                        Attributes().ints(NRTCC_ATTR_TUPLE_INDEX, {static_cast<int64_t>(i)})));
  }
  return values;
}

// ---- leaves -------------------------------------------------------------------------------------

Value Graph::parameter_of(nrtcc_computation_t computation, int number, Type type,
                          const Dims& dims) {
  const nrtcc_computation_t before = std::exchange(current_, computation);
  Value value =
      op("parameter", {}, type, dims, Attributes().ints(NRTCC_ATTR_PARAMETER_NUMBER, {number}));
  current_ = before;
  return value;
}

Value Graph::parameter(Type type, const Dims& dims) {
  return parameter_of(0, parameters_++, type, dims);
}

Value Graph::literal(Type type, const Dims& dims, const void* data, size_t bytes) {
  return op("constant", {}, type, dims, Attributes().data(NRTCC_ATTR_LITERAL, data, bytes));
}

Value Graph::constant(Type type, double value) {
  if (type == kF64) {
    return literal(type, {}, &value, sizeof(value));
  }
  if (is_float(type)) {
    const auto single = static_cast<float>(value);
    return convert(literal(kF32, {}, &single, sizeof(single)), type);
  }
  return integer(type, static_cast<int64_t>(value));
}

Value Graph::integer(Type type, int64_t value) {
  if (is_float(type)) {
    return constant(type, static_cast<double>(value));
  }
  if (type == kPred) {
    const uint8_t byte = value != 0;
    return literal(type, {}, &byte, 1);
  }
  // Little-endian: the low bytes come first.
  return literal(type, {}, &value, static_cast<size_t>(bytes_of(type)));
}

Value Graph::full(Type type, const Dims& dims, double value) {
  return broadcast(constant(type, value), dims, {});
}

Value Graph::iota(Type type, const Dims& dims, int64_t dim) {
  return op(
      "iota", {}, type, dims,
      Attributes().ints(NRTCC_ATTR_DIMENSIONS, {wrap(dim, static_cast<int64_t>(dims.size()))}));
}

Value Graph::lowest(Type type) {
  if (is_float(type)) {
    return constant(type, -std::numeric_limits<double>::infinity());
  }
  if (!is_signed_integer(type)) {
    return integer(type, 0);
  }
  return integer(type, std::numeric_limits<int64_t>::min() >> (64 - 8 * bytes_of(type)));
}

Value Graph::highest(Type type) {
  if (is_float(type)) {
    return constant(type, std::numeric_limits<double>::infinity());
  }
  if (type == kPred) {
    return integer(type, 1);
  }
  if (!is_signed_integer(type)) {
    return integer(type, -1);
  }
  return integer(type, std::numeric_limits<int64_t>::max() >> (64 - 8 * bytes_of(type)));
}

// ---- shape --------------------------------------------------------------------------------------

Value Graph::convert(const Value& x, Type type) {
  if (x.type == type) {
    return x;
  }
  if (type == kPred) {  // torch: everything but 0 is true, NaN too
    return compare("NE", x, constant(x.type, 0));
  }
  return op("convert", {x}, type, x.dims);
}

Value Graph::bitcast(const Value& x, Type type) {
  return x.type == type ? x : op("bitcast-convert", {x}, type, x.dims);
}

Value Graph::reshape(const Value& x, const Dims& dims) {
  return x.dims == dims ? x : op("reshape", {x}, x.type, dims);
}

Value Graph::broadcast(const Value& x, const Dims& dims, const Dims& map) {
  return x.dims == dims
             ? x
             : op("broadcast", {x}, x.type, dims, Attributes().ints(NRTCC_ATTR_DIMENSIONS, map));
}

Value Graph::expand(const Value& x, const Dims& dims) {
  if (x.dims == dims) {
    return x;
  }
  // HLO broadcasts don't stretch dimensions of size 1: those are dropped first.
  Dims kept;
  Dims map;
  const size_t lead = dims.size() - x.dims.size();
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (x.dims[i] == dims[lead + i]) {
      kept.push_back(x.dims[i]);
      map.push_back(static_cast<int64_t>(lead + i));
    } else if (x.dims[i] != 1) {
      throw Error("a dimension of " + std::to_string(x.dims[i]) + " does not expand to " +
                  std::to_string(dims[lead + i]));
    }
  }
  return broadcast(reshape(x, kept), dims, map);
}

Value Graph::transpose(const Value& x, const Dims& order) {
  Dims dims;
  bool same = true;
  for (size_t i = 0; i < order.size(); ++i) {
    dims.push_back(x.dims[static_cast<size_t>(order[i])]);
    same = same && order[i] == static_cast<int64_t>(i);
  }
  return same ? x
              : op("transpose", {x}, x.type, dims, Attributes().ints(NRTCC_ATTR_DIMENSIONS, order));
}

Value Graph::swap(const Value& x, int64_t a, int64_t b) {
  Dims order(x.dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(wrap(a, x.rank()))],
            order[static_cast<size_t>(wrap(b, x.rank()))]);
  return transpose(x, order);
}

Value Graph::slice(const Value& x, const Dims& start, const Dims& limit, const Dims& stride) {
  Dims numbers;
  Dims dims;
  for (size_t i = 0; i < start.size(); ++i) {
    const int64_t step = stride.empty() ? 1 : stride[i];
    numbers.insert(numbers.end(), {start[i], limit[i], step});
    dims.push_back((limit[i] - start[i] + step - 1) / step);
  }
  return dims == x.dims
             ? x
             : op("slice", {x}, x.type, dims, Attributes().ints(NRTCC_ATTR_SLICE, numbers));
}

Value Graph::narrow(const Value& x, int64_t dim, int64_t start, int64_t length, int64_t step) {
  const auto at = static_cast<size_t>(wrap(dim, x.rank()));
  Dims from(x.dims.size(), 0);
  Dims to = x.dims;
  Dims steps(x.dims.size(), 1);
  from[at] = start;
  to[at] = length == 0 ? start : start + (length - 1) * step + 1;
  steps[at] = step;
  return slice(x, from, to, steps);
}

Value Graph::pad(const Value& x, const Value& value, const Dims& low, const Dims& high,
                 const Dims& interior) {
  Dims numbers;
  Dims dims;
  bool same = true;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    const int64_t between = interior.empty() ? 0 : interior[i];
    numbers.insert(numbers.end(), {low[i], high[i], between});
    dims.push_back(x.dims[i] + low[i] + high[i] + std::max<int64_t>(x.dims[i] - 1, 0) * between);
    same = same && low[i] == 0 && high[i] == 0 && between == 0;
  }
  return same ? x
              : op("pad", {x, value}, x.type, dims, Attributes().ints(NRTCC_ATTR_PADDING, numbers));
}

Value Graph::concat(const std::vector<Value>& parts, int64_t dim) {
  if (parts.size() == 1) {
    return parts[0];
  }
  Dims dims = parts[0].dims;
  const auto at = static_cast<size_t>(wrap(dim, parts[0].rank()));
  dims[at] = 0;
  for (const Value& part : parts) {
    dims[at] += part.dims[at];
  }
  return op("concatenate", parts, parts[0].type, dims,
            Attributes().ints(NRTCC_ATTR_DIMENSIONS, {static_cast<int64_t>(at)}));
}

Value Graph::reverse(const Value& x, const Dims& dims) {
  return dims.empty()
             ? x
             : op("reverse", {x}, x.type, x.dims, Attributes().ints(NRTCC_ATTR_DIMENSIONS, dims));
}

Value Graph::unsqueeze(const Value& x, int64_t dim) {
  Dims dims = x.dims;
  dims.insert(dims.begin() + wrap(dim, x.rank() + 1), 1);
  return reshape(x, dims);
}

Value Graph::squeeze(const Value& x, int64_t dim) {
  Dims dims = x.dims;
  dims.erase(dims.begin() + wrap(dim, x.rank()));
  return reshape(x, dims);
}

// ---- element by element -------------------------------------------------------------------------

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

// ---- indices ------------------------------------------------------------------------------------

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

void Graph::finish(const std::vector<Value>& results, const std::vector<int>& aliases) {
  Value root = results[0];
  if (results.size() > 1) {
    std::vector<nrtcc_value_t> ids;
    std::vector<nrtcc_shape_t> shapes;
    for (const Value& value : results) {
      ids.push_back(value.id);
      shapes.push_back(
          {value.type, static_cast<int32_t>(value.dims.size()), value.dims.data(), nullptr});
    }
    const nrtcc_shape_t shape{NRTCC_TUPLE, static_cast<int32_t>(shapes.size()), nullptr,
                              shapes.data()};
    must(compiler().nrtcc_op(graph_, 0, compiler().nrtcc_opcode("tuple"), ids.data(),
                             static_cast<int32_t>(ids.size()), &shape, nullptr, 0, &root.id));
  }
  must(compiler().nrtcc_set_root(graph_, 0, root.id));
  for (size_t i = 0; i < aliases.size(); ++i) {
    if (aliases[i] >= 0) {
      must(compiler().nrtcc_set_alias(graph_, static_cast<int32_t>(i), aliases[i]));
    }
  }
}

}  // namespace tnx
