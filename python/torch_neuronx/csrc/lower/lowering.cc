// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/lower/lowering.h"

#include <numeric>
#include <stdexcept>
#include <unordered_map>

namespace tnx {
namespace {

std::unordered_map<std::string, Row>& table() {
  static std::unordered_map<std::string, Row> rows;
  return rows;
}

template <class T>
const T& expect(const std::vector<Arg>& args, size_t i, const std::string& name, const char* what) {
  if (i >= args.size() || !std::holds_alternative<T>(args[i])) {
    throw Unsupported(name + ": argument " + std::to_string(i) + " is not " + what);
  }
  return std::get<T>(args[i]);
}

}  // namespace

const Value& Call::tensor(size_t i) const { return expect<Value>(args_, i, name_, "a tensor"); }

const std::vector<std::optional<Value>>& Call::optional_tensors(size_t i) const {
  return expect<std::vector<std::optional<Value>>>(args_, i, name_, "a list of tensors");
}

std::vector<Value> Call::tensors(size_t i) const {
  std::vector<Value> values;
  for (const auto& value : optional_tensors(i)) {
    if (!value) {
      throw Unsupported(name_ + ": a tensor of argument " + std::to_string(i) + " is missing");
    }
    values.push_back(*value);
  }
  return values;
}

bool Call::flag(size_t i) const { return expect<bool>(args_, i, name_, "a bool"); }

const Number& Call::scalar_info(size_t i) const {
  return expect<Number>(args_, i, name_, "a number");
}

int64_t Call::integer(size_t i) const { return scalar_info(i).integer; }

double Call::number(size_t i) const {
  const Number& number = scalar_info(i);
  if (!number.known) {
    throw Error(name_ + ": the value of argument " + std::to_string(i) + " is not in the key");
  }
  return number.value;
}

const Dims& Call::ints(size_t i) const { return expect<Dims>(args_, i, name_, "a list of ints"); }

const std::string& Call::text(size_t i) const {
  return expect<std::string>(args_, i, name_, "a text");
}

Value Call::runtime(Graph& g, size_t i, size_t element, const Number& number, Type type) const {
  if (number.known) {
    return number.kind == Number::Kind::kFloat ? g.constant(type, number.value)
                                               : g.integer(type, number.integer);
  }
  const int64_t at = places_.at({i, element});
  const Value& inputs = number.kind == Number::Kind::kFloat ? *floats_ : *ints_;
  return g.convert(g.reshape(g.narrow(inputs, 0, at, 1), {}), type);
}

Value Call::scalar(Graph& g, size_t i, Type type) const {
  return runtime(g, i, 0, scalar_info(i), type);
}

Value Call::scalar_at(Graph& g, size_t i, size_t element, Type type) const {
  return runtime(g, i, element, expect<std::vector<Number>>(args_, i, name_, "numbers")[element],
                 type);
}

Value Call::operand(Graph& g, size_t i, Type type) const {
  return is_tensor(i) ? g.convert(tensor(i), type) : scalar(g, i, type);
}

Value Call::random_bits(Graph& g, Type type, const Dims& dims) const {
  if (drawn_ > 0) {
    throw Error(name_ + ": a program draws once");
  }
  drawn_ = static_cast<uint64_t>(count_of(dims) * bytes_of(type) / bytes_of(kU32));
  return g.random_bits(*random_state_, type, dims);
}

void Call::check(Graph& g, const Value& bad, const std::string& text, bool index,
                 const std::optional<Value>& value) const {
  checks_.push_back({bad, value ? *value : g.integer(kS64, 0), text, index});
}

void Call::check_range(Graph& g, const Value& index, int64_t low, int64_t high,
                       const std::string& text, bool raises_index_error) const {
  if (index.count() == 0 || !is_integer(index.type)) {
    return;
  }
  const Value i = g.reshape(g.convert(index, kS64), {index.count()});
  const Value least = g.reduce("minimum", i, {0});
  const Value most = g.reduce("maximum", i, {0});
  const Value too_large = g.compare("GE", most, g.integer(kS64, high));
  const Value bad = g.binary("or", g.compare("LT", least, g.integer(kS64, low)), too_large);
  check(g, bad, text, raises_index_error, g.select(too_large, most, least));
}

void Call::check_index(Graph& g, const Value& index, int64_t dim, int64_t n,
                       bool raises_index_error) const {
  check_range(g, index, -n, n,
              "index {} is out of bounds for dimension " + std::to_string(dim) + " with size " +
                  std::to_string(n),
              raises_index_error);
}

Call Call::element(const std::string& name, size_t e) const {
  std::vector<Arg> args;
  std::map<std::pair<size_t, size_t>, int64_t> places;
  for (size_t i = 0; i < args_.size(); ++i) {
    size_t from = 0;
    if (const auto* tensors = std::get_if<std::vector<std::optional<Value>>>(&args_[i])) {
      const std::optional<Value>& value = tensors->at(e);
      args.push_back(value ? Arg(*value) : Arg(None{}));
      from = e;
    } else if (const auto* numbers = std::get_if<std::vector<Number>>(&args_[i])) {
      args.emplace_back(numbers->at(e));
      from = e;
    } else {
      args.push_back(args_[i]);
    }
    if (const auto at = places_.find({i, from}); at != places_.end()) {
      places[{i, 0}] = at->second;
    }
  }
  Call call(name, std::move(args), {outs_.at(e)});
  call.floats_ = floats_;
  call.ints_ = ints_;
  call.places_ = std::move(places);
  return call;
}

void add_row(std::string_view name, Row row) {
  if (!table().try_emplace(std::string(name), std::move(row)).second) {
    throw std::logic_error("two lowerings of " + std::string(name));  // ends the load: a bug
  }
}

const Row* find_row(std::string_view name) {
  const auto at = table().find(std::string(name));
  return at == table().end() ? nullptr : &at->second;
}

std::vector<std::string> row_names() {
  std::vector<std::string> names;
  for (const auto& [name, row] : table()) {
    names.push_back(name);
  }
  return names;
}

int64_t wrap_dim(int64_t dim, int64_t rank) {
  return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim;
}

Dims all_dims(const Value& x) {
  Dims dims(x.dims.size());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Dims wrap_dims(const Value& x, const Dims& dims, bool empty_means_all) {
  if (dims.empty()) {
    return empty_means_all ? all_dims(x) : Dims{};
  }
  if (x.rank() == 0) {
    return {};
  }
  Dims wrapped;
  for (const int64_t dim : dims) {
    wrapped.push_back(wrap_dim(dim, x.rank()));
  }
  return wrapped;
}

int64_t reduced_count(const Value& x, const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    count *= x.dims[static_cast<size_t>(dim)];
  }
  return count;
}

}  // namespace tnx
