// SPDX-License-Identifier: Apache-2.0
// HLO sort: all operands are put into the order that the comparator gives them along a dimension.
// Every sort is stable; the order itself is that of emulator/isa/sort_order.h.
#include <numeric>

#include "compiler/hir/infer.h"
#include "compiler/hir/status.h"
#include "compiler/lowering/lowerer.h"
#include "compiler/reference/interpreter.h"
#include "emulator/isa/sort_order.h"
#include "runtime/base/format.h"

namespace onrt::hir {

// The computation takes a pair of elements per operand: pred[] if the first come first.
Result<ShapeId> infer_sort(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& first = context.operand(0);
  ONRT_RETURN_IF_ERROR(context.exactly(AttributeKey::kDimensions, 1).status());
  ONRT_RETURN_IF_ERROR(context.dimensions(AttributeKey::kDimensions, first.rank()).status());
  std::vector<ShapeId> scalars;
  std::vector<ShapeId> results;
  for (size_t i = 0; i < context.operand_count(); ++i) {
    const Shape& operand = context.operand(i);
    if (!std::ranges::equal(operand.dims, first.dims)) {
      return context.wrong(format("operand {}: expected dimensions {}, found {}", i,
                                  dims_text(first.dims), context.text(context.operand_id(i))));
    }
    ONRT_ASSIGN_OR_RETURN(const ShapeId scalar, context.array(operand.dtype, {}));
    scalars.insert(scalars.end(), 2, scalar);
    results.push_back(context.operand_id(i));
  }
  ONRT_ASSIGN_OR_RETURN(const Computation* callee, context.callee());
  ONRT_ASSIGN_OR_RETURN(const ShapeId truth, context.array(Dtype::kPred, {}));
  ONRT_RETURN_IF_ERROR(context.require_signature(*callee, scalars, truth));
  return context.one_or_tuple(results);
}

}  // namespace onrt::hir

namespace onrt::reference {
namespace {

// Element `i` of a row; `at` is the row's index.
int64_t place(const Tensor& tensor, Index at, size_t dimension, int64_t i) {
  at[dimension] = i;
  return tensor.position(at);
}

Tensor scalar_of(const Tensor& tensor, int64_t position) {
  Tensor made{tensor.dtype, {}, std::vector<std::byte>(dtype_bytes(tensor.dtype))};
  made.copy_element(0, tensor, position);
  return made;
}

}  // namespace

Status evaluate_sort(Operation& operation) {
  const auto dimension = static_cast<size_t>(operation.ints(hir::AttributeKey::kDimensions)[0]);
  const Tensor& first = operation.operand(0);
  const int64_t length = first.dims[dimension];
  Index rows = first.dims;
  rows[dimension] = length == 0 ? 0 : 1;
  Status status = ok_status();
  for_each_index(rows, [&](const Index& row, int64_t /*position*/) {
    const auto before = [&](int64_t a, int64_t b) {
      std::vector<Tensors> pairs;
      for (const Tensor* operand : operation.operands) {
        pairs.push_back({scalar_of(*operand, place(*operand, row, dimension, a))});
        pairs.push_back({scalar_of(*operand, place(*operand, row, dimension, b))});
      }
      Result<Tensors> result =
          interpret(operation.graph, operation.callee(), pairs, operation.budget);
      if (!result.ok()) {
        status = std::move(result).status();
        return false;
      }
      return result->at(0).get(0) != 0;
    };
    std::vector<int64_t> order(static_cast<size_t>(length));
    std::iota(order.begin(), order.end(), 0);
    std::vector<int64_t> spare(order.size());
    ncx::sort_in_order(order.data(), spare.data(), length, before, [&] { return !status.ok(); });
    for (size_t k = 0; k < operation.operands.size(); ++k) {
      const Tensor& operand = operation.operand(k);
      for (int64_t i = 0; i < length; ++i) {
        operation.results[k].copy_element(
            place(operand, row, dimension, i), operand,
            place(operand, row, dimension, order[static_cast<size_t>(i)]));
      }
    }
  });
  return status;
}

}  // namespace onrt::reference

namespace onrt::lowering {

Status lower_sort(Lowerer& lowerer, const Node& node, int32_t index) {
  const int64_t dimension = node.ints(hir::AttributeKey::kDimensions)[0];
  const int64_t length = node.results[0].dims[static_cast<size_t>(dimension)];
  if (length > ncx::kMaxSortLength) {
    return hir::unsupported(format("{}: {} elements along dimension {}, above the limit of {}",
                                   lowerer.flat().describe(node), length, dimension,
                                   ncx::kMaxSortLength));
  }
  std::vector<Window> reads;
  bool repeats = true;  // every row has one element only, however often
  for (const Ref operand : node.operands) {
    reads.push_back(lowerer.window(operand));
    repeats = repeats && reads.back().strides[static_cast<size_t>(dimension)] == 0;
  }
  if (length == 1 || repeats) {
    for (size_t i = 0; i < node.results.size(); ++i) {
      lowerer.set_view({index, static_cast<int32_t>(i)}, lowerer.window(node.operands[i]),
                       node.operands[i]);
    }
    return ok_status();
  }
  ONRT_ASSIGN_OR_RETURN(ncx::MicroProgram comparator,
                        lowerer.micro_program(node, static_cast<hir::ComputationId>(
                                                        node.ints(hir::AttributeKey::kCalled)[0])));
  std::vector<Window> writes;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    writes.push_back(lowerer.new_buffer(node.results[i]));
  }
  const int32_t number = lowerer.add_kernel(KernelKind::kSort, node);
  Kernel& kernel = lowerer.kernel(number);
  kernel.reads = reads;
  kernel.writes = writes;
  kernel.dimension = dimension;
  kernel.combiner = std::move(comparator);
  for (size_t i = 0; i < writes.size(); ++i) {
    lowerer.set_window({index, static_cast<int32_t>(i)}, writes[i], number);
  }
  return ok_status();
}

}  // namespace onrt::lowering
