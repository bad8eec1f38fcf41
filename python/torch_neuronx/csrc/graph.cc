// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/graph.h"

#include <limits>

#include "python/torch_neuronx/csrc/graph_parts.h"

namespace tnx {

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
