// SPDX-License-Identifier: Apache-2.0
// The first k elements of every row of the last dimension in descending order (or ascending, for
// the smallest), with their positions: HLO topk, and the custom call AwsNeuronTopK. Floats are in
// their total order, equal elements in the order of their positions, as XLA has it.
#include <algorithm>
#include <charconv>
#include <numeric>

#include "compiler/hir/infer.h"
#include "compiler/hir/status.h"
#include "compiler/lowering/lowerer.h"
#include "compiler/reference/interpreter.h"
#include "runtime/base/format.h"

namespace onrt {
namespace {

// The comparison that is true for two elements in the order of the result.
ncx::ScalarOp comes_first(Dtype dtype, bool largest) {
  if (is_floating(dtype)) {
    return largest ? ncx::ScalarOp::kCompareTotalGt : ncx::ScalarOp::kCompareTotalLt;
  }
  return largest ? ncx::ScalarOp::kCompareGt : ncx::ScalarOp::kCompareLt;
}

}  // namespace
}  // namespace onrt

namespace onrt::hir {
namespace {

constexpr std::string_view kNeuronTopK = "AwsNeuronTopK";

Result<ShapeId> infer_rows(const InferContext& context, int64_t k, Dtype positions) {
  const Shape& operand = context.operand(0);
  if (operand.rank() == 0) {
    return context.wrong(format("operand 0: expected at least one dimension, found {}",
                                context.text(context.operand_id(0))));
  }
  if (k < 0 || k > operand.dims.back()) {
    return context.wrong(
        format("k: expected 0 to {}, the last dimension, found {}", operand.dims.back(), k));
  }
  std::vector<int64_t> dims(operand.dims.begin(), operand.dims.end());
  dims.back() = k;
  std::array<ShapeId, 2> results{};
  ONRT_ASSIGN_OR_RETURN(results[0], context.array(operand.dtype, dims));
  ONRT_ASSIGN_OR_RETURN(results[1], context.array(positions, dims));
  return context.shapes().tuple(results);
}

}  // namespace

Result<ShapeId> infer_topk(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  ONRT_ASSIGN_OR_RETURN(const auto k, context.exactly(AttributeKey::kK, 1));
  return infer_rows(context, k[0], Dtype::kS32);
}

// AwsNeuronTopK: backend_config is k as decimal text, positions are u32.
Result<ShapeId> infer_custom_call(const InferContext& context) {
  const Attribute* target = context.find(AttributeKey::kTarget);
  const std::string_view name = target == nullptr ? std::string_view() : target->text();
  if (name != kNeuronTopK) {
    return unsupported(format("{}: target '{}' is not supported; the only one is {}",
                              describe(context.graph(), context.candidate()), name, kNeuronTopK));
  }
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  if (context.operand_count() != 1) {
    return context.wrong(format("expected 1 operand, found {}", context.operand_count()));
  }
  const Attribute* config = context.find(AttributeKey::kBackendConfig);
  const std::string_view text = config == nullptr ? std::string_view() : config->text();
  int64_t k = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), k);
  if (error != std::errc() || end != text.data() + text.size()) {
    return context.wrong(
        format("attribute backend_config: expected k as a decimal number, found '{}'",
               text.substr(0, 64)));
  }
  return infer_rows(context, k, Dtype::kU32);
}

}  // namespace onrt::hir

namespace onrt::reference {
namespace {

Status evaluate_rows(Operation& operation, bool largest) {
  const Tensor& operand = operation.operand(0);
  const int64_t length = operand.dims.back();
  const int64_t k = operation.results[0].dims.back();
  const ncx::ScalarOp op = comes_first(operand.dtype, largest);
  for (int64_t row = 0; length > 0 && row < operand.elements() / length; ++row) {
    std::vector<int64_t> order(static_cast<size_t>(length));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const ncx::Boxed pair[] = {operand.get(row * length + a), operand.get(row * length + b)};
      return ncx::evaluate(op, Dtype::kPred, operand.dtype, pair, 0, 0) != 0;
    });
    for (int64_t i = 0; i < k; ++i) {
      const int64_t from = order[static_cast<size_t>(i)];
      operation.results[0].copy_element(row * k + i, operand, row * length + from);
      operation.results[1].set(row * k + i, static_cast<ncx::Boxed>(from));
    }
  }
  return ok_status();
}

}  // namespace

Status evaluate_topk(Operation& operation) {
  return evaluate_rows(operation,
                       hir::find(operation.attributes, hir::AttributeKey::kLargest) != nullptr);
}

Status evaluate_custom_call(Operation& operation) { return evaluate_rows(operation, true); }

}  // namespace onrt::reference

namespace onrt::lowering {
namespace {

Status lower_rows(Lowerer& lowerer, const Node& node, int32_t index, bool largest) {
  const Type& type = lowerer.type(node.operands[0]);
  const int64_t length = type.dims.back();
  if (length > ncx::kMaxSortLength) {
    return hir::unsupported(format("{}: rows of {} elements, above the limit of {}",
                                   lowerer.flat().describe(node), length, ncx::kMaxSortLength));
  }
  if (length == 1) {
    lowerer.set_view({index, 0}, lowerer.window(node.operands[0]), node.operands[0]);
    const Window zero = lowerer.constant(node.results[1].dtype, 0);
    lowerer.set_window({index, 1}, broadcast(zero, node.results[1].dims, {}), -1);
    return ok_status();
  }
  const Window read = lowerer.dense(node.operands[0], node);
  const std::vector<Window> writes = {lowerer.new_buffer(node.results[0]),
                                      lowerer.new_buffer(node.results[1])};
  const int32_t number = lowerer.add_kernel(KernelKind::kSort, node);
  Kernel& kernel = lowerer.kernel(number);
  kernel.reads = {read};
  kernel.writes = writes;
  kernel.dimension = static_cast<int64_t>(type.dims.size()) - 1;
  const ncx::ScalarOp op = comes_first(type.dtype, largest);
  kernel.combiner = {{{op, Dtype::kPred, {0, 1, 0}, 0}}, {2}};
  lowerer.set_window({index, 0}, writes[0], number);
  lowerer.set_window({index, 1}, writes[1], number);
  return ok_status();
}

}  // namespace

Status lower_topk(Lowerer& lowerer, const Node& node, int32_t index) {
  return lower_rows(lowerer, node, index,
                    hir::find(node.attributes, hir::AttributeKey::kLargest) != nullptr);
}

Status lower_custom_call(Lowerer& lowerer, const Node& node, int32_t index) {
  return lower_rows(lowerer, node, index, true);
}

}  // namespace onrt::lowering
