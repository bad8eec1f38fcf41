// SPDX-License-Identifier: Apache-2.0
// Gather, scatter, dynamic slices and random numbers: one instruction each.
#include "compiler/hir/status.h"
#include "compiler/lowering/lowerer.h"
#include "runtime/base/format.h"

namespace onrt::lowering {
namespace {

using hir::AttributeKey;

std::vector<Window> windows_of(Lowerer& lowerer, std::span<const Ref> operands) {
  std::vector<Window> made;
  for (const Ref operand : operands) {
    made.push_back(lowerer.window(operand));
  }
  return made;
}

// Result i is operand i.
Status pass_on(Lowerer& lowerer, const Node& node, int32_t index) {
  for (size_t i = 0; i < node.results.size(); ++i) {
    lowerer.set_view({index, static_cast<int32_t>(i)}, lowerer.window(node.operands[i]),
                     node.operands[i]);
  }
  return ok_status();
}

}  // namespace

Status lower_gather(Lowerer& lowerer, const Node& node, int32_t index) {
  const std::vector<Window> reads = windows_of(lowerer, node.operands);
  const Window made = lowerer.new_buffer(node.results[0]);
  const int32_t number = lowerer.add_kernel(KernelKind::kGather, node);
  lowerer.kernel(number).reads = reads;
  lowerer.kernel(number).writes = {made};
  lowerer.set_window({index, 0}, made, number);
  return ok_status();
}

Status lower_scatter(Lowerer& lowerer, const Node& node, int32_t index) {
  const size_t n = node.results.size();
  if (lowerer.type(node.operands[n + 1]).elements == 0) {
    return pass_on(lowerer, node, index);
  }
  ONRT_ASSIGN_OR_RETURN(ncx::MicroProgram combiner,
                        lowerer.micro_program(node, static_cast<hir::ComputationId>(
                                                        node.ints(AttributeKey::kCalled)[0])));
  const std::vector<Window> reads = windows_of(lowerer, node.operands.subspan(n));
  std::vector<Window> writes;
  for (size_t i = 0; i < n; ++i) {
    writes.push_back(lowerer.updatable(node.operands[i], node));
  }
  const int32_t number = lowerer.add_kernel(KernelKind::kScatter, node);
  lowerer.kernel(number).reads = reads;
  lowerer.kernel(number).writes = writes;
  lowerer.kernel(number).combiner = std::move(combiner);
  for (size_t i = 0; i < n; ++i) {
    lowerer.set_window({index, static_cast<int32_t>(i)}, writes[i], number);
  }
  return ok_status();
}

Status lower_dynamic_slice(Lowerer& lowerer, const Node& node, int32_t index) {
  const std::vector<Window> reads = windows_of(lowerer, node.operands);
  const Window made = lowerer.new_buffer(node.results[0]);
  const int32_t number = lowerer.add_kernel(KernelKind::kDynamicSlice, node);
  lowerer.kernel(number).reads = reads;
  lowerer.kernel(number).writes = {made};
  lowerer.set_window({index, 0}, made, number);
  return ok_status();
}

Status lower_dynamic_update_slice(Lowerer& lowerer, const Node& node, int32_t index) {
  if (lowerer.type(node.operands[1]).elements == 0) {
    return pass_on(lowerer, node, index);
  }
  const std::vector<Window> reads = windows_of(lowerer, node.operands.subspan(1));
  const Window made = lowerer.updatable(node.operands[0], node);
  const int32_t number = lowerer.add_kernel(KernelKind::kDynamicUpdateSlice, node);
  lowerer.kernel(number).reads = reads;
  lowerer.kernel(number).writes = {made};
  lowerer.set_window({index, 0}, made, number);
  return ok_status();
}

Status lower_rng(Lowerer& lowerer, const Node& node, int32_t index) {
  const std::vector<Window> reads = windows_of(lowerer, node.operands);
  const Window made = lowerer.new_buffer(node.results[0]);
  const int32_t number = lowerer.add_kernel(KernelKind::kRng, node);
  Kernel& kernel = lowerer.kernel(number);
  kernel.reads = reads;
  kernel.writes = {made};
  kernel.rng = node.ints(AttributeKey::kRngDistribution)[0] == 1 ? ncx::RngKind::kUniform
                                                                 : ncx::RngKind::kNormal;
  kernel.seed = lowerer.next_generator();  // each has a stream of its own
  lowerer.set_window({index, 0}, made, number);
  return ok_status();
}

Status lower_rng_bit_generator(Lowerer& lowerer, const Node& node, int32_t index) {
  if (node.results[1].elements == 0) {
    lowerer.set_view({index, 0}, lowerer.window(node.operands[0]), node.operands[0]);
    lowerer.set_window({index, 1}, lowerer.new_buffer(node.results[1]), -1);
    return ok_status();
  }
  const Window state = lowerer.window(node.operands[0]);
  const Window next = lowerer.new_buffer(node.results[0]);
  const Window bits = lowerer.new_buffer(node.results[1]);
  const int32_t number = lowerer.add_kernel(KernelKind::kRng, node);
  Kernel& kernel = lowerer.kernel(number);
  kernel.reads = {state};
  kernel.writes = {bits, next};
  kernel.rng = node.ints(AttributeKey::kRngAlgorithm)[0] == 1 ? ncx::RngKind::kThreeFry
                                                              : ncx::RngKind::kPhilox;
  lowerer.set_window({index, 0}, next, number);
  lowerer.set_window({index, 1}, bits, number);
  return ok_status();
}

}  // namespace onrt::lowering
