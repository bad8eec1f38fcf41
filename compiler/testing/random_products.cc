// SPDX-License-Identifier: Apache-2.0
// Dots, convolutions, normalisation and factorisations.
#include <algorithm>
#include <array>

#include "compiler/ops/convolution.h"
#include "compiler/testing/random_generator.h"

namespace onrt::testing {

void Generator::add_product(ValueId value) {
  switch (between(0, 5)) {
    case 0:
    case 1:
      return add_convolution(value);
    case 2:
      return add_batch_norm(value);
    case 3:
      return chance(50) ? add_cholesky(value) : add_triangular_solve(value);
    default:
      return add_dot(value);
  }
}

Ints Generator::shuffled(size_t count) {
  Ints order(count);
  for (size_t i = 0; i < count; ++i) {
    order[i] = static_cast<int64_t>(i);
  }
  std::shuffle(order.begin(), order.end(), random_);
  return order;
}

// A window of seven numbers for an axis.
Ints Generator::random_axis() {
  return {between(1, 3),      chance(30) ? 2 : 1, between(-1, 2),    between(-1, 2),
          chance(20) ? 2 : 1, chance(20) ? 2 : 1, chance(20) ? 1 : 0};
}

void Generator::add_convolution(ValueId value) {
  const Ints input = dims(value);
  const size_t rank = input.size();
  if (rank < 2 || dtype(value) == Dtype::kPred) {
    return add_unary(value);
  }
  Ints numbers = shuffled(rank);  // batch, feature, spatial
  const int64_t batch = input[static_cast<size_t>(numbers[0])];
  const int64_t features = input[static_cast<size_t>(numbers[1])];
  Ints groups = {1, 1};
  if (features > 0 && chance(30)) {
    groups[0] = chance(50) && features % 2 == 0 ? 2 : features;
  } else if (batch > 0 && chance(20)) {
    groups[1] = batch;
  }
  const Ints kernel_numbers = shuffled(rank);
  const Ints output_numbers = shuffled(rank);
  Ints kernel(rank);
  Ints output(rank);
  const int64_t results = groups[0] * groups[1] * between(1, 3);
  kernel[static_cast<size_t>(kernel_numbers[0])] = features / groups[0];
  kernel[static_cast<size_t>(kernel_numbers[1])] = results;
  output[static_cast<size_t>(output_numbers[0])] = batch / groups[1];
  output[static_cast<size_t>(output_numbers[1])] = results;
  Ints window;
  int64_t work = batch * features * results;
  for (size_t i = 2; i < rank; ++i) {
    const Ints axis = random_axis();
    window.insert(window.end(), axis.begin(), axis.end());
    kernel[static_cast<size_t>(kernel_numbers[i])] = axis[0];
    const hir::WindowAxis read{axis[0], axis[1], axis[2], axis[3], axis[4], axis[5], false};
    const int64_t out = read.positions(input[static_cast<size_t>(numbers[i])]);
    output[static_cast<size_t>(output_numbers[i])] = out;
    work *= axis[0] * out;
  }
  if (work > 40 * kMostElements) {
    return add_unary(value);
  }
  numbers.insert(numbers.end(), kernel_numbers.begin(), kernel_numbers.end());
  numbers.insert(numbers.end(), output_numbers.begin(), output_numbers.end());
  const ValueId rhs = like(dtype(value), kernel);
  const Dtype type = is_floating(dtype(value)) && chance(40) ? Dtype::kF32 : dtype(value);
  add(Opcode::kConvolution, {value, rhs}, type, output,
      {{AttributeKey::kConvDims, numbers, {}},
       {AttributeKey::kWindow, window, {}},
       {AttributeKey::kGroups, groups, {}}});
}

void Generator::add_batch_norm(ValueId value) {
  if (dims(value).empty() || !is_floating(dtype(value)) || shape(value).element_count == 0) {
    return add_unary(value);
  }
  const Ints feature = {between(0, static_cast<int>(dims(value).size()) - 1)};
  const float epsilon = 1e-3F;
  const std::vector<Attribute> attributes = {
      {AttributeKey::kDimensions, feature, {}},
      {AttributeKey::kEpsilon, {}, std::as_bytes(std::span(&epsilon, 1))}};
  const Ints features = {dims(value)[static_cast<size_t>(feature[0])]};
  std::vector<ValueId> operands = {value};
  const int kind = between(0, 2);
  for (int i = 0; i < (kind == 0 ? 2 : kind == 1 ? 4 : 3); ++i) {
    operands.push_back(like(dtype(value), features));
  }
  if (kind == 1) {
    add(Opcode::kBatchNormInference, operands, dtype(value), dims(value), attributes);
    return;
  }
  if (kind == 2) {
    operands.push_back(like(dtype(value), dims(value)));
  }
  const ShapeId vector = *graph_->shapes().array(dtype(value), features);
  const std::array<ShapeId, 3> shapes = {(*graph_)[value].shape, vector, vector};
  const ValueId all = add(kind == 0 ? Opcode::kBatchNormTraining : Opcode::kBatchNormGrad, operands,
                          *graph_->shapes().tuple(shapes), attributes);
  values_.pop_back();  // a tuple is no operand for the others
  for (int64_t i = 0; i < 3; ++i) {
    add(Opcode::kGetTupleElement, {all}, shapes[static_cast<size_t>(i)],
        {{AttributeKey::kTupleIndex, {&i, 1}, {}}});
  }
}

void Generator::add_cholesky(ValueId value) {
  if (dims(value).empty() || !is_floating(dtype(value)) || dims(value).back() > 8) {
    return add_unary(value);
  }
  Ints square = dims(value);
  square.back() = std::max<int64_t>(square.back(), 1);
  square.insert(square.end() - 1, square.back());
  const Ints lower = {between(0, 1)};
  add(Opcode::kCholesky, {like(dtype(value), square)}, dtype(value), square,
      {{AttributeKey::kTriangle, lower, {}}});
}

void Generator::add_triangular_solve(ValueId value) {
  const Ints wanted = dims(value);
  const size_t rank = wanted.size();
  if (rank < 2 || !is_floating(dtype(value))) {
    return add_unary(value);
  }
  const Ints flags = {between(0, 1), between(0, 1), between(0, 1), between(1, 3)};
  Ints square = wanted;
  square[rank - 2] = square[rank - 1] = wanted[flags[0] != 0 ? rank - 2 : rank - 1];
  if (square[rank - 1] > 8) {
    return add_unary(value);
  }
  add(Opcode::kTriangularSolve, {like(dtype(value), square), value}, dtype(value), wanted,
      {{AttributeKey::kTriangle, flags, {}}});
}

void Generator::add_dot(ValueId value) {
  if (dtype(value) == Dtype::kPred) {
    return add_unary(value);
  }
  Ints lhs_batch;
  Ints rhs_batch;
  Ints lhs_contracting;
  Ints rhs_contracting;
  Ints other;
  Ints batch;
  Ints free;
  for (size_t d = 0; d < dims(value).size(); ++d) {
    const int64_t size = dims(value)[d];
    const int role = between(0, 2);
    if (role == 0) {
      lhs_batch.push_back(static_cast<int64_t>(d));
      batch.push_back(size);
      rhs_batch.push_back(static_cast<int64_t>(other.size()));
      other.push_back(size);
    } else if (role == 1) {
      lhs_contracting.push_back(static_cast<int64_t>(d));
      rhs_contracting.push_back(static_cast<int64_t>(other.size()));
      other.push_back(size);
    } else {
      free.push_back(size);
    }
  }
  const int64_t columns = between(1, 5);
  other.push_back(columns);
  Ints wanted = batch;
  wanted.insert(wanted.end(), free.begin(), free.end());
  wanted.push_back(columns);
  int64_t count = 1;
  for (const int64_t dim : wanted) {
    count *= dim;
  }
  if (count > kMostElements) {
    return add_unary(value);
  }
  const ValueId rhs = like(dtype(value), other);
  const Dtype type = is_floating(dtype(value)) && chance(40) ? Dtype::kF32 : dtype(value);
  add(Opcode::kDot, {value, rhs}, type, wanted,
      {{AttributeKey::kLhsBatch, lhs_batch, {}},
       {AttributeKey::kRhsBatch, rhs_batch, {}},
       {AttributeKey::kLhsContracting, lhs_contracting, {}},
       {AttributeKey::kRhsContracting, rhs_contracting, {}}});
}

}  // namespace onrt::testing
