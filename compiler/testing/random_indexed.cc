// SPDX-License-Identifier: Apache-2.0
// Dynamic slices, gather and scatter.
#include "compiler/testing/random_generator.h"

namespace onrt::testing {

void Generator::add_indexed(ValueId value) {
  if (dims(value).empty()) {
    return add_unary(value);
  }
  switch (between(0, 3)) {
    case 0:
      return add_dynamic_slice(value);
    case 1:
      return add_dynamic_update_slice(value);
    case 2:
      return add_gather(value);
    default:
      return add_scatter(value);
  }
}

std::vector<ValueId> Generator::with_starts(std::vector<ValueId> operands, size_t count) {
  const Dtype type = chance(70) ? Dtype::kS32 : Dtype::kS64;
  for (size_t i = 0; i < count; ++i) {
    operands.push_back(like(type, {}));
  }
  return operands;
}

Ints Generator::window_of(ValueId value) {
  Ints sizes;
  for (const int64_t dim : dims(value)) {
    sizes.push_back(between(dim == 0 ? 0 : 1, static_cast<int>(dim)));
  }
  return sizes;
}

void Generator::add_dynamic_slice(ValueId value) {
  const Ints sizes = window_of(value);
  const auto operands = with_starts({value}, sizes.size());
  add(Opcode::kDynamicSlice, operands, dtype(value), sizes,
      {{AttributeKey::kSliceSizes, sizes, {}}});
}

void Generator::add_dynamic_update_slice(ValueId value) {
  const Ints sizes = window_of(value);
  const ValueId update = like(dtype(value), sizes);
  const auto operands = with_starts({value, update}, sizes.size());
  add(Opcode::kDynamicUpdateSlice, operands, dtype(value), dims(value));
}

// Rows of `value` along one dimension, as an embedding lookup does.
void Generator::add_gather(ValueId value) {
  const Ints axis = {between(0, static_cast<int>(dims(value).size()) - 1)};
  const int64_t count = between(1, 6);
  if (dims(value)[static_cast<size_t>(axis[0])] == 0 ||
      shape(value).element_count * count > kMostElements * 4) {
    return add_unary(value);
  }
  const ValueId indices = like(chance(50) ? Dtype::kS32 : Dtype::kU8, {count, 1});
  Ints sizes = dims(value);
  sizes[static_cast<size_t>(axis[0])] = 1;
  Ints wanted = {count};
  Ints offset;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (static_cast<int64_t>(d) != axis[0]) {
      offset.push_back(static_cast<int64_t>(wanted.size()));
      wanted.push_back(sizes[d]);
    }
  }
  const Ints vector_dim = {1};
  add(Opcode::kGather, {value, indices}, dtype(value), wanted,
      {{AttributeKey::kOffsetDims, offset, {}},
       {AttributeKey::kCollapsedDims, axis, {}},
       {AttributeKey::kIndexMap, axis, {}},
       {AttributeKey::kIndexVectorDim, vector_dim, {}},
       {AttributeKey::kSliceSizes, sizes, {}}});
}

void Generator::add_scatter(ValueId value) {
  const Ints axis = {between(0, static_cast<int>(dims(value).size()) - 1)};
  const int64_t count = between(1, 6);
  if (shape(value).element_count * count > kMostElements * 4) {
    return add_unary(value);
  }
  const ValueId indices = like(Dtype::kS32, {count, 1});
  Ints updates = {count};
  Ints window;
  for (size_t d = 0; d < dims(value).size(); ++d) {
    if (static_cast<int64_t>(d) != axis[0]) {
      window.push_back(static_cast<int64_t>(updates.size()));
      updates.push_back(dims(value)[d]);
    }
  }
  const ValueId update = like(dtype(value), updates);
  const Ints callee = {binary_computation(pick(elementwise(dtype(value), 2)), dtype(value))};
  const Ints vector_dim = {1};
  add(Opcode::kScatter, {value, indices, update}, dtype(value), dims(value),
      {{AttributeKey::kOffsetDims, window, {}},
       {AttributeKey::kCollapsedDims, axis, {}},
       {AttributeKey::kIndexMap, axis, {}},
       {AttributeKey::kIndexVectorDim, vector_dim, {}},
       {AttributeKey::kCalled, callee, {}}});
}

}  // namespace onrt::testing
