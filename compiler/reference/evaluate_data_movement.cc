// SPDX-License-Identifier: Apache-2.0
#include "compiler/reference/interpreter.h"

namespace onrt::reference {
namespace {

using hir::AttributeKey;

// result[index] = operand[source(index)].
template <class Source>
Status copy_from(Operation& operation, Source source) {
  const Tensor& operand = operation.operand(0);
  Tensor& result = operation.result();
  for_each_index(result.dims, [&](const Index& index, int64_t position) {
    result.copy_element(position, operand, operand.position(source(index)));
  });
  return ok_status();
}

}  // namespace

Status evaluate_reshape(Operation& operation) {
  operation.result().data = operation.operand(0).data;
  return ok_status();
}

Status evaluate_bitcast(Operation& operation) { return evaluate_reshape(operation); }

Status evaluate_broadcast(Operation& operation) {
  const auto dims = operation.ints(AttributeKey::kDimensions);
  return copy_from(operation, [&](const Index& index) {
    Index source(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
      source[i] = index[static_cast<size_t>(dims[i])];
    }
    return source;
  });
}

Status evaluate_transpose(Operation& operation) {
  const auto order = operation.ints(AttributeKey::kDimensions);
  return copy_from(operation, [&](const Index& index) {
    Index source(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      source[static_cast<size_t>(order[i])] = index[i];
    }
    return source;
  });
}

Status evaluate_reverse(Operation& operation) {
  const auto dims = operation.ints(AttributeKey::kDimensions);
  return copy_from(operation, [&](const Index& index) {
    Index source = index;
    for (const int64_t dim : dims) {
      const auto d = static_cast<size_t>(dim);
      source[d] = operation.operand(0).dims[d] - 1 - index[d];
    }
    return source;
  });
}

Status evaluate_slice(Operation& operation) {
  const auto slice = operation.ints(AttributeKey::kSlice);
  return copy_from(operation, [&](const Index& index) {
    Index source(index.size());
    for (size_t d = 0; d < index.size(); ++d) {
      source[d] = slice[3 * d] + index[d] * slice[3 * d + 2];
    }
    return source;
  });
}

// Everything is the padding value, then each element of the operand that is inside goes to
// low + i * (interior + 1).
Status evaluate_pad(Operation& operation) {
  const auto padding = operation.ints(AttributeKey::kPadding);
  const Tensor& operand = operation.operand(0);
  Tensor& result = operation.result();
  for (int64_t i = 0; i < result.elements(); ++i) {
    result.copy_element(i, operation.operand(1), 0);
  }
  for_each_index(operand.dims, [&](const Index& index, int64_t position) {
    Index target(index.size());
    for (size_t d = 0; d < index.size(); ++d) {
      target[d] = padding[3 * d] + index[d] * (padding[3 * d + 2] + 1);
    }
    if (result.contains(target)) {
      result.copy_element(result.position(target), operand, position);
    }
  });
  return ok_status();
}

Status evaluate_concatenate(Operation& operation) {
  const auto axis = static_cast<size_t>(operation.ints(AttributeKey::kDimensions)[0]);
  Tensor& result = operation.result();
  int64_t begin = 0;
  for (const Tensor* operand : operation.operands) {
    for_each_index(operand->dims, [&](const Index& index, int64_t position) {
      Index target = index;
      target[axis] += begin;
      result.copy_element(result.position(target), *operand, position);
    });
    begin += operand->dims[axis];
  }
  return ok_status();
}

Status evaluate_iota(Operation& operation) {
  const auto dim = static_cast<size_t>(operation.ints(AttributeKey::kDimensions)[0]);
  Tensor& result = operation.result();
  for_each_index(result.dims, [&](const Index& index, int64_t position) {
    result.set(position, ncx::evaluate(ncx::ScalarOp::kIota, result.dtype, result.dtype, nullptr,
                                       dim, index[dim]));
  });
  return ok_status();
}

}  // namespace onrt::reference
