// SPDX-License-Identifier: Apache-2.0
// reduce: a fused prologue over all dimensions, the canonical order of sums, a fused epilogue.
#include <algorithm>

#include "compiler/hir/combiner.h"
#include "compiler/hir/status.h"
#include "compiler/lowering/lowerer.h"
#include "runtime/base/format.h"

namespace onrt::lowering {
namespace {

using hir::AttributeKey;

// Kept dimensions in order, then the reduced ones in order.
Dims reduce_order(size_t rank, std::span<const int64_t> reduced) {
  Dims order;
  for (const bool wanted : {false, true}) {
    for (size_t d = 0; d < rank; ++d) {
      const bool is_reduced = std::ranges::find(reduced, static_cast<int64_t>(d)) != reduced.end();
      if (is_reduced == wanted) {
        order.push_back(static_cast<int64_t>(d));
      }
    }
  }
  return order;
}

// Makes a computation over the operand's dimensions one over the ordered dimensions.
void reorder(Micro& micro, const Dims& order) {
  for (Window& window : micro.inputs) {
    window = permute(window, order);
  }
  for (Micro::Op& op : micro.ops) {
    if (op.op == ncx::ScalarOp::kIota) {
      const auto* found = std::find(order.begin(), order.end(), static_cast<int64_t>(op.immediate));
      op.immediate = static_cast<uint64_t>(found - order.begin());
    }
  }
}

// Nothing to combine: every result element is the initial value.
Status lower_empty(Lowerer& lowerer, const Node& node, int32_t index) {
  const size_t n = node.operands.size() / 2;
  for (size_t i = 0; i < n; ++i) {
    const Ref init = node.operands[n + i];
    lowerer.set_view({index, static_cast<int32_t>(i)},
                     broadcast(lowerer.window(init), node.results[i].dims, {}), init);
  }
  return ok_status();
}

// One element each, as gradients of broadcasts have it: combine(initial value, element), which is
// not always the element (0 + -0 is +0).
void lower_single(Lowerer& lowerer, const Node& node, int32_t index,
                  std::span<const ncx::ScalarOp> combiners) {
  const size_t n = combiners.size();
  std::vector<Window> arrays;
  std::vector<Window> inits;
  for (size_t i = 0; i < n; ++i) {  // may make kernels, which come before this one
    const Window array = lowerer.dense(node.operands[i], node);
    arrays.push_back(*reshape(array, node.results[i].dims));
    inits.push_back(broadcast(lowerer.window(node.operands[n + i]), node.results[i].dims, {}));
  }
  const int32_t number = lowerer.add_kernel(KernelKind::kEltwise, node);
  Kernel& kernel = lowerer.kernel(number);
  kernel.dims = Dims(node.results[0].dims);
  for (size_t i = 0; i < n; ++i) {
    const auto bits = lowerer.splat(node.operands[n + i]);
    const Dtype dtype = node.results[i].dtype;
    const Reg init = bits ? kernel.tail.add_op({ncx::ScalarOp::kConstant, dtype, {}, *bits})
                          : kernel.tail.add_input(inits[i]);
    const Reg element = kernel.tail.add_input(arrays[i]);
    const Reg result = kernel.tail.add_op({combiners[i], dtype, {init, element}, 0});
    lowerer.set_register({index, static_cast<int32_t>(i)}, number, result);
  }
}

}  // namespace

Status lower_reduce(Lowerer& lowerer, const Node& node, int32_t index) {
  const size_t n = node.operands.size() / 2;
  const std::span<const Ref> arrays = node.operands.first(n);
  const Type& first = lowerer.type(arrays[0]);
  if (first.elements == 0) {
    return lower_empty(lowerer, node, index);
  }
  if (n > static_cast<size_t>(ncx::kMaxOutputs)) {
    return hir::unsupported(format("{}: {} arrays at once, above the limit of {}",
                                   lowerer.flat().describe(node), n, ncx::kMaxOutputs));
  }
  const auto callee = static_cast<hir::ComputationId>(node.ints(AttributeKey::kCalled)[0]);
  Kernel made;
  made.combiners = hir::simple_combiners(lowerer.flat().graph(), callee);
  if (lowerer.fuses() && !made.combiners.empty() && first.elements == node.results[0].elements) {
    lower_single(lowerer, node, index, made.combiners);
    return ok_status();
  }
  if (made.combiners.empty()) {
    ONRT_ASSIGN_OR_RETURN(made.general, lowerer.micro_program(node, callee));
  }
  for (size_t i = 0; i < n; ++i) {
    made.inits.push_back(lowerer.window(node.operands[n + i]));
  }
  const auto reduced = node.ints(AttributeKey::kDimensions);
  const Dims order = reduce_order(first.dims.size(), reduced);
  if (auto producer = lowerer.take_producer(arrays)) {
    made.prologue = std::move(producer->tail);
  } else {
    for (const Ref array : arrays) {
      const Reg reg = made.prologue.add_input(lowerer.window(array));
      made.prologue.outputs.push_back({reg, Window{}});
    }
  }
  reorder(made.prologue, order);
  for (const int64_t dim : order) {
    made.domain.push_back(first.dims[static_cast<size_t>(dim)]);
  }
  made.dims = Dims(node.results[0].dims);
  for (size_t i = 0; i < n; ++i) {
    made.tail.heads.push_back(node.results[i].dtype);
  }
  const int32_t number = lowerer.add_kernel(KernelKind::kReduce, node);
  made.kind = KernelKind::kReduce;
  made.origin = node.origin;
  lowerer.kernel(number) = std::move(made);
  for (size_t i = 0; i < n; ++i) {
    lowerer.set_register({index, static_cast<int32_t>(i)}, number,
                         {Reg::List::kHead, static_cast<uint16_t>(i)});
  }
  return ok_status();
}

}  // namespace onrt::lowering
