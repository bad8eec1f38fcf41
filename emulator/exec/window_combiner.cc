// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/window_combiner.h"

#include <cstring>
#include <utility>

namespace onrt {
namespace {

size_t index_of(Dtype dtype) { return static_cast<size_t>(dtype); }
size_t index_of(ncx::RegisterClass reg) { return static_cast<size_t>(reg); }

}  // namespace

WindowCombiner::WindowCombiner(const ncx::ReduceWindow& op, const KernelTable& kernels)
    : kernels_(kernels), general_(!op.general.results.empty()) {
  for (const auto& accumulator : op.accumulators) {
    types_.push_back(accumulator.type);
    ops_.push_back(accumulator.combiner);
  }
  if (general_) {
    std::vector<Dtype> pairs = types_;
    pairs.insert(pairs.end(), types_.begin(), types_.end());
    bool yes[2 * ncx::kMaxOutputs];
    bool no[2 * ncx::kMaxOutputs] = {};
    std::fill(std::begin(yes), std::end(yes), true);
    plan_ = plan_micro(
        op.general, {pairs, {yes, pairs.size()}, {no, pairs.size()}, {no, types_.size()}}, kernels);
  }
}

CombinerRun::CombinerRun(const WindowCombiner& combiner, std::byte* buffers) : c_(combiner) {
  const MicroPlan& plan = combiner.plan_;
  place_buffers(plan, buffers, pointers_);
  place_constants(plan, pointers_, static_cast<size_t>(kBlock));
  for (size_t i = 0; i < combiner.arrays(); ++i) {
    spare_[i] = buffers + (static_cast<size_t>(plan.buffers) + i) * kBufferStride;
  }
}

void CombinerRun::combine(void* const* a, void* const* b, void** target, size_t n) {
  const size_t arrays = c_.arrays();
  if (!c_.general()) {
    for (size_t i = 0; i < arrays; ++i) {
      c_.kernels_.op[static_cast<size_t>(c_.op(i))][index_of(c_.register_class(i))](
          target[i], a[i], b[i], b[i], n, 0);
    }
    return;
  }
  for (size_t i = 0; i < arrays; ++i) {
    pointers_[c_.plan_.inputs[i]] = a[i];
    pointers_[c_.plan_.inputs[arrays + i]] = b[i];
  }
  run_steps(c_.plan_, pointers_, n);
  // A result may be an operand itself, so nothing is overwritten before all results are aside.
  for (size_t i = 0; i < arrays; ++i) {
    std::memcpy(spare_[i], pointers_[c_.plan_.results[i]],
                n * register_bytes(c_.register_class(i)));
  }
  for (size_t i = 0; i < arrays; ++i) {
    std::swap(target[i], spare_[i]);
  }
}

void CombinerRun::store(size_t array, void* values, std::byte* to, int64_t stride, size_t n) const {
  const Dtype type = c_.type(array);
  const OpKernel settle = c_.kernels_.settle[index_of(type)];
  if (settle != nullptr) {
    settle(values, values, values, values, n, 0);
  }
  const auto& moves = stride == 1 ? c_.kernels_.store : c_.kernels_.store_strided;
  moves[index_of(type)](to, values, stride, n);
}

void CombinerRun::load(size_t array, const std::byte* from, int64_t stride, size_t n,
                       void* out) const {
  const auto& moves = stride == 1 ? c_.kernels_.load : c_.kernels_.load_strided;
  moves[index_of(c_.type(array))](out, from, stride, n);
}

void CombinerRun::fill(size_t array, const std::byte* element, void* out) const {
  uint64_t value = 0;
  c_.kernels_.load[index_of(c_.type(array))](&value, element, 1, 1);
  c_.kernels_.fill[index_of(c_.register_class(array))](out, nullptr, nullptr, nullptr,
                                                       static_cast<size_t>(kBlock), value);
}

void CombinerRun::spread(size_t array, const void* value, void* out, size_t n) const {
  uint64_t bits = 0;
  std::memcpy(&bits, value, register_bytes(c_.register_class(array)));
  c_.kernels_.fill[index_of(c_.register_class(array))](out, nullptr, nullptr, nullptr, n, bits);
}

}  // namespace onrt
