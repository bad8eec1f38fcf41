// SPDX-License-Identifier: Apache-2.0
// Elementwise operations and movement of data.
#include <algorithm>

#include "compiler/testing/random_generator.h"

namespace onrt::testing {

void Generator::add_unary(ValueId value) {
  const auto opcodes = elementwise(dtype(value), 1);
  if (opcodes.empty()) {
    add(Opcode::kConvert, {value}, Dtype::kF32, dims(value));
  } else {
    add(pick(opcodes), {value}, dtype(value), dims(value));
  }
}

void Generator::add_binary(ValueId value) {
  const ValueId other = like(dtype(value), dims(value));
  const bool swap = chance(50);
  const std::vector<ValueId> operands = {swap ? other : value, swap ? value : other};
  if (chance(15)) {
    static constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    const std::string_view direction = pick(kDirections);
    std::vector<Attribute> attributes = {
        {AttributeKey::kComparison, {}, std::as_bytes(std::span(direction))}};
    if (chance(20)) {
      attributes.push_back({AttributeKey::kTotalOrder, {}, {}});
    }
    add(Opcode::kCompare, operands, Dtype::kPred, dims(value), attributes);
    return;
  }
  add(pick(elementwise(dtype(value), 2)), operands, dtype(value), dims(value));
}

void Generator::add_select(ValueId value) {
  const bool scalar = chance(20);
  if (dtype(value) != Dtype::kPred && chance(30)) {
    const ValueId low = like(dtype(value), scalar ? Ints{} : dims(value));
    const ValueId high = like(dtype(value), scalar ? Ints{} : dims(value));
    add(Opcode::kClamp, {low, value, high}, dtype(value), dims(value));
    return;
  }
  const ValueId which = like(Dtype::kPred, scalar ? Ints{} : dims(value));
  const ValueId other = like(dtype(value), dims(value));
  add(Opcode::kSelect, {which, value, other}, dtype(value), dims(value));
}

void Generator::add_convert(ValueId value) {
  if (is_floating(dtype(value)) && chance(30)) {
    const Ints bits = {between(2, 8), between(1, 23)};
    add(Opcode::kReducePrecision, {value}, dtype(value), dims(value),
        {{AttributeKey::kExponentMantissa, bits, {}}});
    return;
  }
  if (is_floating(dtype(value)) && chance(20)) {
    add(Opcode::kIsFinite, {value}, Dtype::kPred, dims(value));
    return;
  }
  const Dtype type = pick(kTypes);
  if (chance(40) && type != Dtype::kPred && dtype(value) != Dtype::kPred &&
      dtype_bytes(type) <= dtype_bytes(dtype(value)) && dims(value).size() < 5) {
    Ints wanted = dims(value);
    if (dtype_bytes(type) < dtype_bytes(dtype(value))) {
      wanted.push_back(dtype_bytes(dtype(value)) / dtype_bytes(type));
    }
    add(Opcode::kBitcastConvert, {value}, type, wanted);
    return;
  }
  add(Opcode::kConvert, {value}, type, dims(value));
}

void Generator::add_broadcast(ValueId value) {
  Ints wanted = dims(value);
  Ints mapping;
  for (size_t i = 0; i < wanted.size(); ++i) {
    mapping.push_back(static_cast<int64_t>(i));
  }
  const int64_t size = between(1, 4);
  if (shape(value).element_count * size > kMostElements || wanted.size() > 5) {
    return add_unary(value);
  }
  const int at = between(0, static_cast<int>(wanted.size()));
  wanted.insert(wanted.begin() + at, size);
  for (int64_t& dim : mapping) {
    dim += dim >= at ? 1 : 0;
  }
  add(Opcode::kBroadcast, {value}, dtype(value), wanted,
      {{AttributeKey::kDimensions, mapping, {}}});
}

void Generator::add_reshape(ValueId value) {
  int64_t left = shape(value).element_count;
  Ints wanted;
  for (const int64_t factor : {2, 3, 5, 2}) {
    if (left % factor == 0 && chance(60)) {
      wanted.push_back(factor);
      left /= factor;
    }
  }
  wanted.insert(wanted.begin() + between(0, static_cast<int>(wanted.size())), left);
  if (chance(20)) {
    wanted.insert(wanted.begin() + between(0, static_cast<int>(wanted.size())), 1);
  }
  add(Opcode::kReshape, {value}, dtype(value), wanted);
}

void Generator::add_transpose(ValueId value) {
  Ints order;
  for (size_t i = 0; i < dims(value).size(); ++i) {
    order.push_back(static_cast<int64_t>(i));
  }
  std::shuffle(order.begin(), order.end(), random_);
  Ints wanted;
  for (const int64_t dim : order) {
    wanted.push_back(dims(value)[static_cast<size_t>(dim)]);
  }
  add(Opcode::kTranspose, {value}, dtype(value), wanted, {{AttributeKey::kDimensions, order, {}}});
}

void Generator::add_slice(ValueId value) {
  Ints slice;
  Ints wanted;
  for (const int64_t dim : dims(value)) {
    const int64_t start = chance(50) ? 0 : between(0, static_cast<int>(dim));
    const int64_t limit =
        chance(50) ? dim : between(static_cast<int>(start), static_cast<int>(dim));
    const int64_t stride = between(1, 3);
    slice.insert(slice.end(), {start, limit, stride});
    wanted.push_back((limit - start + stride - 1) / stride);
  }
  add(Opcode::kSlice, {value}, dtype(value), wanted, {{AttributeKey::kSlice, slice, {}}});
}

void Generator::add_reverse(ValueId value) {
  Ints reversed;
  for (size_t i = 0; i < dims(value).size(); ++i) {
    if (chance(50)) {
      reversed.push_back(static_cast<int64_t>(i));
    }
  }
  add(Opcode::kReverse, {value}, dtype(value), dims(value),
      {{AttributeKey::kDimensions, reversed, {}}});
}

void Generator::add_pad(ValueId value) {
  Ints padding;
  Ints wanted;
  int64_t count = 1;
  for (const int64_t dim : dims(value)) {
    const int64_t interior = chance(70) ? 0 : between(1, 2);
    const int64_t inside = std::max<int64_t>(dim - 1, 0) * interior + dim;
    const int64_t low = between(-1, 2);
    const int64_t high = std::max<int64_t>(between(-2, 2), -(inside + low));
    padding.insert(padding.end(), {low, high, interior});
    wanted.push_back(inside + low + high);
    count *= wanted.back();
    if (wanted.back() < 0) {
      return add_unary(value);
    }
  }
  if (count > kMostElements) {
    return add_unary(value);
  }
  const ValueId fill = like(dtype(value), {});
  add(Opcode::kPad, {value, fill}, dtype(value), wanted, {{AttributeKey::kPadding, padding, {}}});
}

void Generator::add_concatenate(ValueId value) {
  if (dims(value).empty() || shape(value).element_count * 3 > kMostElements) {
    return add_unary(value);
  }
  const Ints axis = {between(0, static_cast<int>(dims(value).size()) - 1)};
  const ValueId other = like(dtype(value), dims(value));
  Ints wanted = dims(value);
  wanted[static_cast<size_t>(axis[0])] *= 3;
  add(Opcode::kConcatenate, {value, other, value}, dtype(value), wanted,
      {{AttributeKey::kDimensions, axis, {}}});
}

void Generator::add_iota(ValueId value) {
  const Dtype type = dtype(value) == Dtype::kPred ? Dtype::kS32 : dtype(value);
  if (dims(value).empty()) {
    return add_unary(value);
  }
  const Ints dim = {between(0, static_cast<int>(dims(value).size()) - 1)};
  add(Opcode::kIota, {}, type, dims(value), {{AttributeKey::kDimensions, dim, {}}});
}

}  // namespace onrt::testing
