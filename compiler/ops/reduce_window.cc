// SPDX-License-Identifier: Apache-2.0
// HLO reduce-window, in the order of emulator/isa/window_order.h.
#include <algorithm>

#include "compiler/hir/status.h"
#include "compiler/hir/window.h"
#include "compiler/lowering/lowerer.h"
#include "compiler/reference/combiner.h"
#include "compiler/reference/window.h"
#include "emulator/isa/window_order.h"
#include "runtime/base/format.h"

namespace onrt::hir {

// Operands: n arrays, then n initial values. The computation takes n running values, then n new
// ones.
Result<ShapeId> infer_reduce_window(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  if (context.operand_count() % 2 != 0) {
    return context.wrong(format("expected as many initial values as arrays, found {} operands",
                                context.operand_count()));
  }
  const Shape& first = context.operand(0);
  ONRT_ASSIGN_OR_RETURN(const std::vector<int64_t> windows, infer_windows(context, first.dims));
  return infer_fold(context, windows);
}

}  // namespace onrt::hir

namespace onrt::reference {

Status evaluate_reduce_window(Operation& operation) {
  const size_t n = operation.operands.size() / 2;
  const Tensor& first = operation.operand(0);
  const auto window = hir::window_of(operation.ints(hir::AttributeKey::kWindow));
  const bool backward = ncx::folds_backward(window, first.dims, operation.result().dims);
  Combiner combine(operation);
  const auto step = [&](const Row& a, const Row& b) { return combine(a, b); };
  for_each_index(operation.result().dims, [&](const Index& index, int64_t position) {
    std::vector<Row> rows;
    for_each_element(window, first.dims, index, [&](const Index& at) {
      Row& row = rows.emplace_back(n);
      for (size_t i = 0; i < n; ++i) {
        row[i] = operation.operand(i).get(first.position(at));
      }
    });
    Row total(n);
    for (size_t i = 0; i < n; ++i) {
      total[i] = operation.operand(n + i).get(0);
    }
    if (!rows.empty()) {
      const Row sum =
          ncx::fold_window(rows.data(), static_cast<int64_t>(rows.size()), backward, step);
      total = combine.settle(combine(total, sum));
    }
    for (size_t i = 0; i < n; ++i) {
      operation.results[i].set(position, total[i]);
    }
  });
  return combine.status;
}

}  // namespace onrt::reference

namespace onrt::lowering {

Status lower_reduce_window(Lowerer& lowerer, const Node& node, int32_t index) {
  const size_t n = node.operands.size() / 2;
  if (lowerer.type(node.operands[0]).elements == 0) {  // every result is its initial value
    for (size_t i = 0; i < n; ++i) {
      const Ref init = node.operands[n + i];
      lowerer.set_view({index, static_cast<int32_t>(i)},
                       broadcast(lowerer.window(init), node.results[i].dims, {}), init);
    }
    return ok_status();
  }
  if (n > static_cast<size_t>(ncx::kMaxOutputs)) {
    return hir::unsupported(format("{}: {} arrays at once, above the limit of {}",
                                   lowerer.flat().describe(node), n, ncx::kMaxOutputs));
  }
  const auto callee = static_cast<hir::ComputationId>(node.ints(hir::AttributeKey::kCalled)[0]);
  std::vector<ncx::ScalarOp> combiners = hir::simple_combiners(lowerer.flat().graph(), callee);
  ncx::MicroProgram general;
  if (combiners.empty()) {
    ONRT_ASSIGN_OR_RETURN(general, lowerer.micro_program(node, callee));
  }
  std::vector<Window> reads;
  std::vector<Window> inits;
  std::vector<Window> writes;
  for (size_t i = 0; i < n; ++i) {
    reads.push_back(lowerer.window(node.operands[i]));
    inits.push_back(lowerer.window(node.operands[n + i]));
    writes.push_back(lowerer.new_buffer(node.results[i]));
  }
  const int32_t number = lowerer.add_kernel(KernelKind::kReduceWindow, node);
  Kernel& kernel = lowerer.kernel(number);
  kernel.combiners = std::move(combiners);
  kernel.general = std::move(general);
  kernel.reads = std::move(reads);
  kernel.inits = std::move(inits);
  kernel.writes = writes;
  kernel.window = hir::window_of(node.ints(hir::AttributeKey::kWindow));
  for (size_t i = 0; i < n; ++i) {
    lowerer.set_window({index, static_cast<int32_t>(i)}, writes[i], number);
  }
  return ok_status();
}

}  // namespace onrt::lowering
