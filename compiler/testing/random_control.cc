// SPDX-License-Identifier: Apache-2.0
// Loops and conditionals.
#include "compiler/testing/random_generator.h"

namespace onrt::testing {

ValueId Generator::element(ValueId tuple, int64_t i) {
  return add(Opcode::kGetTupleElement, {tuple}, shape(tuple).elements[static_cast<size_t>(i)],
             {{AttributeKey::kTupleIndex, {&i, 1}, {}}});
}

// A tuple is no operand for other operations.
ValueId Generator::tuple(const std::vector<ValueId>& elements) {
  std::vector<ShapeId> shapes;
  for (const ValueId value : elements) {
    shapes.push_back((*graph_)[value].shape);
  }
  const ValueId made = add(Opcode::kTuple, elements, *graph_->shapes().tuple(shapes));
  values_.pop_back();
  return made;
}

// Values of the current computation as ((first), the others...).
ValueId Generator::state_of(const std::vector<ValueId>& values) {
  std::vector<ValueId> elements = {tuple({values[0]})};
  elements.insert(elements.end(), values.begin() + 1, values.end());
  return tuple(elements);
}

std::vector<ValueId> Generator::values_of(ValueId state) {
  const auto count = static_cast<int64_t>(shape(state).elements.size());
  const ValueId first = element(state, 0);
  values_.pop_back();
  std::vector<ValueId> made = {element(first, 0)};
  for (int64_t i = 1; i < count; ++i) {
    made.push_back(element(state, i));
  }
  return made;
}

ValueId Generator::number(int32_t value) {
  const Bytes data = bytes_of<int32_t>({value});
  return add(Opcode::kConstant, {}, Dtype::kS32, {}, {{AttributeKey::kLiteral, {}, data}});
}

// What carried value `i` becomes: itself, another one, or what the body has made.
ValueId Generator::next_value(const std::vector<ValueId>& carried, size_t i) {
  const int choice = between(0, 9);
  if (choice < 2) {
    return carried[i];
  }
  if (choice < 4) {
    for (const ValueId other : carried) {
      if (other != carried[i] && (*graph_)[other].shape == (*graph_)[carried[i]].shape) {
        return other;
      }
    }
  }
  if (choice < 7 && options_.indexed && !dims(carried[i]).empty()) {
    add_dynamic_update_slice(carried[i]);
    return values_.back();
  }
  return like(dtype(carried[i]), dims(carried[i]));
}

void Generator::add_loop() {
  std::vector<ValueId> init = {number(between(0, 2))};
  const int count = between(1, 5);
  for (int i = 0; i < count; ++i) {
    init.push_back(chance(15) ? init.back() : pick(values_));  // sometimes the same twice
  }
  const ValueId before = state_of(init);
  const ShapeId state = (*graph_)[before].shape;
  const int64_t condition = nested("condition", state, [&](ValueId parameter) {
    const std::vector<ValueId> values = values_of(parameter);
    if (chance(30)) {
      add_operation();
    }
    const std::string_view less = "LT";
    return add(Opcode::kCompare, {values[0], number(between(0, 4))}, Dtype::kPred, {},
               {{AttributeKey::kComparison, {}, std::as_bytes(std::span(less))}});
  });
  const int64_t body = nested("body", state, [&](ValueId parameter) {
    std::vector<ValueId> values = values_of(parameter);
    for (int i = between(1, 6); i > 0; --i) {
      add_operation();
    }
    const std::vector<ValueId> carried = values;
    for (size_t i = 1; i < values.size(); ++i) {
      values[i] = next_value(carried, i);
    }
    const ValueId step = number(between(1, 2));
    if (init[1] == init[0] && chance(60)) {  // a second counter
      values[1] = add(Opcode::kAdd, {carried[1], chance(80) ? step : number(1)}, Dtype::kS32, {});
    }
    values[0] = add(Opcode::kAdd, {values[0], step}, Dtype::kS32, {});
    return state_of(values);
  });
  const Ints callees = {condition, body};
  const ValueId loop = add(Opcode::kWhile, {before}, state, {{AttributeKey::kCalled, callees, {}}});
  values_.pop_back();
  values_of(loop);
}

void Generator::add_conditional() {
  std::vector<ValueId> results = {pick(values_)};  // their types; no values are taken from here
  while (chance(60)) {
    results.push_back(pick(values_));
  }
  const bool two_way = chance(50);
  const int branches = two_way ? 2 : between(1, 4);
  std::vector<ValueId> operands = {two_way ? like(Dtype::kPred, {}) : like(Dtype::kS32, {})};
  Ints callees;
  ShapeId shape_id = -1;
  for (int i = 0; i < branches; ++i) {
    std::vector<ValueId> given = {pick(values_), pick(values_), results[0]};
    operands.push_back(state_of(given));
    callees.push_back(nested("branch", (*graph_)[operands.back()].shape, [&](ValueId parameter) {
      std::vector<ValueId> made = values_of(parameter);
      const ValueId last = made.back();
      for (int k = between(0, 4); k > 0; --k) {
        add_operation();
      }
      made.clear();
      for (const ValueId result : results) {
        made.push_back(chance(20) && (*graph_)[result].shape == (*graph_)[last].shape
                           ? last
                           : like(dtype(result), dims(result)));
      }
      const ValueId root = state_of(made);
      shape_id = (*graph_)[root].shape;
      return root;
    }));
  }
  const ValueId chosen =
      add(Opcode::kConditional, operands, shape_id, {{AttributeKey::kCalled, callees, {}}});
  values_.pop_back();
  values_of(chosen);
}

}  // namespace onrt::testing
