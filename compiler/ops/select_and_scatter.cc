// SPDX-License-Identifier: Apache-2.0
// HLO select-and-scatter: each window of the operand selects an element, and the source's element
// is scattered to its place. Windows in row-major order of the source.
#include <algorithm>
#include <array>

#include "compiler/hir/status.h"
#include "compiler/hir/window.h"
#include "compiler/lowering/lowerer.h"
#include "compiler/reference/interpreter.h"
#include "compiler/reference/window.h"
#include "runtime/base/format.h"

namespace onrt::hir {

// Operands: array, source, initial value. Computations: select, scatter.
Result<ShapeId> infer_select_and_scatter(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& operand = context.operand(0);
  ONRT_ASSIGN_OR_RETURN(const std::vector<int64_t> windows, infer_windows(context, operand.dims));
  ONRT_ASSIGN_OR_RETURN(const ShapeId source, context.array(operand.dtype, windows));
  ONRT_ASSIGN_OR_RETURN(const ShapeId scalar, context.array(operand.dtype, {}));
  const std::array<ShapeId, 2> wanted = {source, scalar};
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (context.operand_id(i + 1) != wanted[i]) {
      return context.wrong(format("operand {}: expected {}, found {}", i + 1,
                                  context.text(wanted[i]),
                                  context.text(context.operand_id(i + 1))));
    }
  }
  ONRT_ASSIGN_OR_RETURN(const auto ids, context.exactly(AttributeKey::kCalled, 2));
  ONRT_ASSIGN_OR_RETURN(const ShapeId truth, context.array(Dtype::kPred, {}));
  const std::array<ShapeId, 2> pair = {scalar, scalar};
  for (size_t i = 0; i < ids.size(); ++i) {
    ONRT_RETURN_IF_ERROR(
        context.require_signature(context.graph().computation(static_cast<ComputationId>(ids[i])),
                                  pair, i == 0 ? truth : scalar));
  }
  return context.operand_id(0);
}

}  // namespace onrt::hir

namespace onrt::reference {
namespace {

Tensor scalar_of(Dtype dtype, ncx::Boxed value) {
  Tensor made{dtype, {}, std::vector<std::byte>(dtype_bytes(dtype))};
  made.set(0, value);
  return made;
}

}  // namespace

Status evaluate_select_and_scatter(Operation& operation) {
  const Tensor& operand = operation.operand(0);
  const Tensor& source = operation.operand(1);
  Tensor& result = operation.result();
  const auto window = hir::window_of(operation.ints(hir::AttributeKey::kWindow));
  const auto called = operation.ints(hir::AttributeKey::kCalled);
  Status status = ok_status();
  const auto call = [&](size_t which, ncx::Boxed a, ncx::Boxed b) -> ncx::Boxed {
    const std::vector<Tensors> pair = {{scalar_of(operand.dtype, a)},
                                       {scalar_of(operand.dtype, b)}};
    Result<Tensors> made = interpret(
        operation.graph, static_cast<hir::ComputationId>(called[which]), pair, operation.budget);
    if (!made.ok()) {
      status = std::move(made).status();
      return 0;
    }
    return made->at(0).get(0);
  };
  for (int64_t i = 0; i < result.elements(); ++i) {
    result.set(i, operation.operand(2).get(0));
  }
  for_each_index(source.dims, [&](const Index& index, int64_t position) {
    int64_t selected = -1;
    for_each_element(window, operand.dims, index, [&](const Index& at) {
      const int64_t here = operand.position(at);
      if (selected < 0 || call(0, operand.get(selected), operand.get(here)) == 0) {
        selected = here;
      }
    });
    if (selected >= 0) {
      result.set(selected, call(1, result.get(selected), source.get(position)));
    }
  });
  return status;
}

}  // namespace onrt::reference

namespace onrt::lowering {

Status lower_select_and_scatter(Lowerer& lowerer, const Node& node, int32_t index) {
  if (lowerer.type(node.operands[1]).elements == 0) {
    const Ref init = node.operands[2];
    lowerer.set_view({index, 0}, broadcast(lowerer.window(init), node.results[0].dims, {}), init);
    return ok_status();
  }
  const auto called = node.ints(hir::AttributeKey::kCalled);
  ONRT_ASSIGN_OR_RETURN(ncx::MicroProgram select,
                        lowerer.micro_program(node, static_cast<hir::ComputationId>(called[0])));
  ONRT_ASSIGN_OR_RETURN(ncx::MicroProgram scatter,
                        lowerer.micro_program(node, static_cast<hir::ComputationId>(called[1])));
  std::vector<Window> reads;
  for (const Ref operand : node.operands) {
    reads.push_back(lowerer.window(operand));
  }
  const Window made = lowerer.new_buffer(node.results[0]);
  const int32_t number = lowerer.add_kernel(KernelKind::kSelectScatter, node);
  Kernel& kernel = lowerer.kernel(number);
  kernel.reads = reads;
  kernel.writes = {made};
  kernel.window = hir::window_of(node.ints(hir::AttributeKey::kWindow));
  kernel.select = std::move(select);
  kernel.combiner = std::move(scatter);
  lowerer.set_window({index, 0}, made, number);
  return ok_status();
}

}  // namespace onrt::lowering
