// SPDX-License-Identifier: Apache-2.0
// dot in canonical form: batch dimensions, one M, one N, one K, each with its strides.
#include <algorithm>

#include "compiler/lowering/lowerer.h"

namespace onrt::lowering {
namespace {

using hir::AttributeKey;
using hir::Opcode;

// Dimensions of the canonical instruction besides M, N and K: the Gemm's limit.
constexpr size_t kMaxBatch = 4;

bool contains(std::span<const int64_t> list, size_t dim) {
  return std::ranges::find(list, static_cast<int64_t>(dim)) != list.end();
}

// One side of the product: its window with dimensions batch, free, contracting.
struct Side {
  Window window;
  size_t batch = 0;
  size_t free = 0;

  Run free_run() const { return {batch, free}; }
  Run contracting_run() const { return {batch + free, window.dims.size() - batch - free}; }
  bool canonical() const {
    return can_merge(window, batch, free) &&
           can_merge(window, batch + free, window.dims.size() - batch - free);
  }
};

Side make_side(const Window& window, std::span<const int64_t> batch,
               std::span<const int64_t> contracting) {
  Dims order(batch);
  for (size_t d = 0; d < window.dims.size(); ++d) {
    if (!contains(batch, d) && !contains(contracting, d)) {
      order.push_back(static_cast<int64_t>(d));
    }
  }
  const size_t free = order.size() - batch.size();
  for (const int64_t dim : contracting) {
    order.push_back(dim);
  }
  return {permute(window, order), batch.size(), free};
}

void copy_to_canonical(Lowerer& lowerer, const Node& node, Side& side) {
  const Window copy =
      lowerer.new_buffer({side.window.dtype, side.window.dims, element_count(side.window.dims)});
  const int32_t number = lowerer.add_kernel(KernelKind::kCopy, node);
  lowerer.kernel(number).pieces.push_back({side.window, copy});
  side.window = copy;
}

std::vector<Run> batch_runs(const Side& lhs, const Side& rhs) {
  const Window* const windows[] = {&lhs.window, &rhs.window};
  return common_runs(windows, lhs.window.dims, 0, lhs.batch, 0);
}

}  // namespace

Ref without_widening(const Lowerer& lowerer, Ref operand) {
  const Node& node = lowerer.flat()[operand.node];
  if (!lowerer.fuses() || node.opcode != Opcode::kConvert || node.results[0].dtype != Dtype::kF32) {
    return operand;
  }
  const Dtype from = lowerer.type(node.operands[0]).dtype;
  return is_floating(from) && dtype_bytes(from) < 4 && lowerer.is_unchanged(node.operands[0])
             ? node.operands[0]
             : operand;
}

Status lower_dot(Lowerer& lowerer, const Node& node, int32_t index) {
  const auto lhs_contracting = node.ints(AttributeKey::kLhsContracting);
  const auto rhs_contracting = node.ints(AttributeKey::kRhsContracting);
  Side lhs = make_side(lowerer.window(without_widening(lowerer, node.operands[0])),
                       node.ints(AttributeKey::kLhsBatch), lhs_contracting);
  Side rhs = make_side(lowerer.window(without_widening(lowerer, node.operands[1])),
                       node.ints(AttributeKey::kRhsBatch), rhs_contracting);
  const Type& result = node.results[0];
  if (element_count(lhs.window.dims) == 0) {  // a sum of nothing
    const Window zero = lowerer.constant(result.dtype, 0);
    lowerer.set_window({index, 0}, broadcast(zero, result.dims, {}), -1);
    return ok_status();
  }
  for (Side* side : {&lhs, &rhs}) {
    if (!side->canonical() || batch_runs(lhs, rhs).size() > kMaxBatch) {
      copy_to_canonical(lowerer, node, *side);
    }
  }
  Kernel made;
  made.kind = KernelKind::kGemm;
  made.origin = node.origin;
  made.dims = Dims(result.dims);
  made.runs = batch_runs(lhs, rhs);
  std::vector<Run> lhs_runs = made.runs;
  lhs_runs.push_back(lhs.free_run());
  lhs_runs.push_back(lhs.contracting_run());
  std::vector<Run> rhs_runs = made.runs;
  rhs_runs.push_back(rhs.contracting_run());
  rhs_runs.push_back(rhs.free_run());
  made.lhs = merge(lhs.window, lhs_runs);
  made.rhs = merge(rhs.window, rhs_runs);
  made.runs.push_back({lhs.batch, lhs.free});
  made.runs.push_back({lhs.batch + lhs.free, rhs.free});
  made.tail.heads.push_back(result.dtype);
  const int32_t number = lowerer.add_kernel(KernelKind::kGemm, node);
  lowerer.kernel(number) = std::move(made);
  lowerer.set_register({index, 0}, number, {Reg::List::kHead, 0});
  return ok_status();
}

}  // namespace onrt::lowering
