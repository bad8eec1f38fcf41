// SPDX-License-Identifier: Apache-2.0
// Reductions, sorts and windows.
#include <array>

#include "compiler/testing/random_generator.h"
#include "emulator/isa/scalar_value.h"

namespace onrt::testing {

// A computation of one binary operation on two scalars.
int64_t Generator::binary_computation(Opcode opcode, Dtype type) {
  const auto id = *graph_->add_computation("combine");
  add_parameter(0, id, type);
  add_parameter(1, id, type);
  const ValueId a = graph_->computation(id).parameters[0];
  const ValueId b = graph_->computation(id).parameters[1];
  const ValueId root = add(opcode, {a, b}, type, {}, {}, id);
  (void)graph_->set_root(id, root);
  return id;
}

Opcode Generator::random_combiner(Dtype type) {
  std::vector<Opcode> fitting;
  for (const Opcode opcode : elementwise(type, 2)) {
    if (ncx::is_combiner(hir::opcode_info(opcode).scalar, type)) {
      fitting.push_back(opcode);
    }
  }
  if (!options_.portable && chance(10)) {  // a general combiner
    return pick(elementwise(type, 2));
  }
  return pick(fitting);
}

// Where a fold begins.
ValueId Generator::initial(Opcode combiner, Dtype type) {
  if (!options_.portable) {
    return like(type, {});
  }
  Bytes data(dtype_bytes(type));
  ncx::store_boxed(type, ncx::combiner_identity(hir::opcode_info(combiner).scalar, type),
                   data.data());
  return add(Opcode::kConstant, {}, type, {}, {{AttributeKey::kLiteral, {}, data}});
}

void Generator::add_reduce(ValueId value) {
  Ints reduced;
  Ints wanted;
  for (size_t i = 0; i < dims(value).size(); ++i) {
    if (chance(60)) {
      reduced.push_back(static_cast<int64_t>(i));
    } else {
      wanted.push_back(dims(value)[i]);
    }
  }
  const Opcode combiner = random_combiner(dtype(value));
  const Ints callee = {binary_computation(combiner, dtype(value))};
  const ValueId init = initial(combiner, dtype(value));
  add(Opcode::kReduce, {value, init}, dtype(value), wanted,
      {{AttributeKey::kDimensions, reduced, {}}, {AttributeKey::kCalled, callee, {}}});
}

// argmax: pairs of value and position, a general combiner with two results.
int64_t Generator::argmax_computation(Dtype type) {
  const auto id = *graph_->add_computation("argmax");
  for (int i = 0; i < 4; ++i) {
    add_parameter(i, id, i % 2 == 0 ? type : Dtype::kS32);
  }
  const auto p = graph_->computation(id).parameters;
  const std::string_view ge = "GE";
  const ValueId first = add(Opcode::kCompare, {p[0], p[2]}, Dtype::kPred, {},
                            {{AttributeKey::kComparison, {}, std::as_bytes(std::span(ge))}}, id);
  const ValueId best = add(Opcode::kSelect, {first, p[0], p[2]}, type, {}, {}, id);
  ValueId which = first;
  if (options_.portable) {  // of equal elements the first: then no order matters
    const ValueId equal = compare("EQ", p[0], p[2], id);
    const ValueId before = compare("LT", p[1], p[3], id);
    which = add(Opcode::kSelect, {equal, before, first}, Dtype::kPred, {}, {}, id);
  }
  const ValueId where = add(Opcode::kSelect, {which, p[1], p[3]}, Dtype::kS32, {}, {}, id);
  const std::array<ShapeId, 2> scalars = {(*graph_)[best].shape, (*graph_)[where].shape};
  (void)graph_->set_root(
      id, add(Opcode::kTuple, {best, where}, *graph_->shapes().tuple(scalars), {}, id));
  return id;
}

// The elements of a tuple of arrays; the tuple itself is no operand for the others.
void Generator::take_apart(ValueId tuple) {
  values_.pop_back();
  const auto shapes = shape(tuple).elements;
  for (int64_t i = 0; i < static_cast<int64_t>(shapes.size()); ++i) {
    add(Opcode::kGetTupleElement, {tuple}, shapes[static_cast<size_t>(i)],
        {{AttributeKey::kTupleIndex, {&i, 1}, {}}});
  }
}

void Generator::add_arg_reduce(ValueId value) {
  const Dtype type = dtype(value);
  if (dims(value).empty() || type == Dtype::kPred) {
    return add_unary(value);
  }
  const Ints axis = {between(0, static_cast<int>(dims(value).size()) - 1)};
  const ValueId positions =
      add(Opcode::kIota, {}, Dtype::kS32, dims(value), {{AttributeKey::kDimensions, axis, {}}});
  const ValueId init = initial(Opcode::kMaximum, type);
  const ValueId zero = number(0);
  Ints wanted = dims(value);
  wanted.erase(wanted.begin() + axis[0]);
  const std::array<ShapeId, 2> shapes = {*graph_->shapes().array(type, wanted),
                                         *graph_->shapes().array(Dtype::kS32, wanted)};
  const Ints callee = {argmax_computation(type)};
  take_apart(add(Opcode::kReduce, {value, positions, init, zero}, *graph_->shapes().tuple(shapes),
                 {{AttributeKey::kDimensions, axis, {}}, {AttributeKey::kCalled, callee, {}}}));
}

void Generator::add_ordered(ValueId value) {
  switch (between(0, 4)) {
    case 0:
      return add_sort(value);
    case 1:
      return add_topk(value);
    case 2:
    case 3:
      return add_reduce_window(value);
    default:
      return add_select_and_scatter(value);
  }
}

ValueId Generator::compare(std::string_view direction, ValueId a, ValueId b, hir::ComputationId id,
                           bool total) {
  std::vector<Attribute> attributes = {
      {AttributeKey::kComparison, {}, std::as_bytes(std::span(direction))}};
  if (total) {
    attributes.push_back({AttributeKey::kTotalOrder, {}, {}});
  }
  return add(Opcode::kCompare, {a, b}, Dtype::kPred, {}, attributes, id);
}

ValueId Generator::scalar_constant(Dtype type, float value, hir::ComputationId id) {
  Bytes data(dtype_bytes(type));
  const ncx::Boxed from = std::bit_cast<uint32_t>(value);
  ncx::store_boxed(type, ncx::evaluate(ncx::ScalarOp::kConvert, type, Dtype::kF32, &from, 0, 0),
                   data.data());
  return add(Opcode::kConstant, {}, type, {}, {{AttributeKey::kLiteral, {}, data}}, id);
}

// An element as jnp.sort compares it: NaNs alike, zeros alike. (The sign of a NaN is no part of a
// result, so the total order must not see it.)
ValueId Generator::canonical(ValueId x, hir::ComputationId id) {
  const Dtype type = dtype(x);
  if (!is_floating(type)) {
    return x;
  }
  const ValueId zero = scalar_constant(type, 0, id);
  const ValueId made =
      add(Opcode::kSelect, {compare("EQ", x, zero, id), zero, x}, type, {}, {}, id);
  return add(Opcode::kSelect, {compare("NE", x, x, id), scalar_constant(type, NAN, id), made}, type,
             {}, {}, id);
}

int64_t Generator::sort_computation(Dtype first, Dtype second) {
  const auto id = *graph_->add_computation("before");
  for (int i = 0; i < 4; ++i) {
    add_parameter(i, id, i < 2 ? first : second);
  }
  auto p = graph_->computation(id).parameters;
  const bool total = chance(50);
  if (total) {
    for (ValueId& parameter : p) {
      parameter = canonical(parameter, id);
    }
  }
  static constexpr std::string_view kDirections[] = {"LT", "GT", "LT", "GT", "LE", "NE"};
  const auto direction = [&] { return kDirections[between(0, options_.portable ? 3 : 5)]; };
  ValueId root = compare(direction(), p[0], p[1], id, total);
  if (chance(40)) {
    const ValueId equal = compare("EQ", p[0], p[1], id, total);
    const ValueId rest = compare(direction(), p[2], p[3], id, total);
    const ValueId both = add(Opcode::kAnd, {equal, rest}, Dtype::kPred, {}, {}, id);
    root = add(Opcode::kOr, {root, both}, Dtype::kPred, {}, {}, id);
  }
  (void)graph_->set_root(id, root);
  return id;
}

void Generator::add_sort(ValueId value) {
  if (shape(value).element_count > 150) {
    return add_unary(value);
  }
  const Ints axis = {between(0, static_cast<int>(dims(value).size()) - 1)};
  const ValueId other = like(pick(kTypes), dims(value));
  const Ints callee = {sort_computation(dtype(value), dtype(other))};
  const std::array<ShapeId, 2> shapes = {(*graph_)[value].shape, (*graph_)[other].shape};
  std::vector<Attribute> attributes = {{AttributeKey::kDimensions, axis, {}},
                                       {AttributeKey::kCalled, callee, {}}};
  if (options_.portable || chance(50)) {
    attributes.push_back({AttributeKey::kStable, {}, {}});
  }
  take_apart(add(Opcode::kSort, {value, other}, *graph_->shapes().tuple(shapes), attributes));
}

void Generator::add_topk(ValueId value) {
  const bool parameter = (*graph_)[value].opcode == Opcode::kParameter;
  if (is_floating(dtype(value)) && !parameter) {
    return add_unary(value);  // NaNs that are made may have either sign
  }
  Ints wanted = dims(value);
  const Ints k = {between(0, static_cast<int>(wanted.back()))};
  wanted.back() = k[0];
  const std::array<ShapeId, 2> shapes = {*graph_->shapes().array(dtype(value), wanted),
                                         *graph_->shapes().array(Dtype::kS32, wanted)};
  std::vector<Attribute> attributes = {{AttributeKey::kK, k, {}}};
  if (chance(70)) {
    attributes.push_back({AttributeKey::kLargest, {}, {}});
  }
  take_apart(add(Opcode::kTopK, {value}, *graph_->shapes().tuple(shapes), attributes));
}

// Attribute Window for these dims, and the numbers of windows; false if there are too many.
bool Generator::random_window(const Ints& from, Ints& window, Ints& windows) {
  const int running = chance(25) ? between(0, static_cast<int>(from.size()) - 1) : -1;
  int64_t places = 1;
  for (size_t d = 0; d < from.size(); ++d) {
    const int64_t n = from[d];
    Ints w = {1, 1, 0, 0, 1, 1};
    if (running == static_cast<int>(d) && n > 0) {
      const bool backward = chance(50);
      w = {n, 1, backward ? 0 : n - 1, backward ? n - 1 : 0, 1, 1};
    } else if (running < 0 && chance(60)) {
      w = {between(1, 3),  between(1, 3), between(-1, 2),
           between(-1, 2), between(1, 2), chance(80) ? 1 : 2};
    }
    const int64_t padded = (n == 0 ? 0 : (n - 1) * w[5] + 1) + w[2] + w[3];
    const int64_t reach = (w[0] - 1) * w[4] + 1;
    windows.push_back(padded < reach ? 0 : (padded - reach) / w[1] + 1);
    window.insert(window.end(), w.begin(), w.end());
    window.push_back(0);
    places *= windows.back() * w[0];
  }
  return places <= 20000;
}

void Generator::add_reduce_window(ValueId value) {
  const Dtype type = dtype(value);
  Ints window;
  Ints windows;
  if (!random_window(dims(value), window, windows)) {
    return add_unary(value);
  }
  if (chance(20) && type != Dtype::kPred) {
    const ValueId init = initial(Opcode::kMaximum, type);
    const Ints axis = {0};
    const ValueId positions =
        add(Opcode::kIota, {}, Dtype::kS32, dims(value), {{AttributeKey::kDimensions, axis, {}}});
    const ValueId zero = number(0);
    const std::array<ShapeId, 2> shapes = {*graph_->shapes().array(type, windows),
                                           *graph_->shapes().array(Dtype::kS32, windows)};
    const Ints callee = {argmax_computation(type)};
    return take_apart(
        add(Opcode::kReduceWindow, {value, positions, init, zero}, *graph_->shapes().tuple(shapes),
            {{AttributeKey::kWindow, window, {}}, {AttributeKey::kCalled, callee, {}}}));
  }
  const Opcode combiner = random_combiner(type);
  const ValueId init = initial(combiner, type);
  const Ints callee = {binary_computation(combiner, type)};
  add(Opcode::kReduceWindow, {value, init}, type, windows,
      {{AttributeKey::kWindow, window, {}}, {AttributeKey::kCalled, callee, {}}});
}

void Generator::add_select_and_scatter(ValueId value) {
  const Dtype type = dtype(value);
  Ints window;
  Ints windows;
  if (!random_window(dims(value), window, windows)) {
    return add_unary(value);
  }
  for (size_t at = 0; options_.portable && at < window.size(); at += 7) {
    // StableHLO has no dilation here, and jaxlib ends at windows that don't fit anywhere.
    if (window[at + 4] != 1 || window[at + 5] != 1 || windows[at / 7] == 0) {
      return add_unary(value);
    }
  }
  const ValueId source = like(type, windows);
  const Opcode combiner = random_combiner(type);
  const ValueId init = initial(combiner, type);
  const auto select = *graph_->add_computation("select");
  add_parameter(0, select, type);
  add_parameter(1, select, type);
  const auto p = graph_->computation(select).parameters;
  static constexpr std::string_view kDirections[] = {"GE", "GT", "LE", "NE"};
  (void)graph_->set_root(select, compare(pick(kDirections), p[0], p[1], select));
  const Ints callees = {select, binary_computation(combiner, type)};
  add(Opcode::kSelectAndScatter, {value, source, init}, type, dims(value),
      {{AttributeKey::kWindow, window, {}}, {AttributeKey::kCalled, callees, {}}});
}

}  // namespace onrt::testing
