// SPDX-License-Identifier: Apache-2.0
// Running values of a reduce-window: blocks of registers that are combined with each other.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/exec/executor.h"
#include "emulator/exec/micro_plan.h"

namespace onrt {

// Immutable, made at load.
class WindowCombiner {
 public:
  WindowCombiner(const ncx::ReduceWindow& op, const KernelTable& kernels);

  size_t arrays() const { return types_.size(); }
  Dtype type(size_t i) const { return types_[i]; }
  ncx::RegisterClass register_class(size_t i) const { return ncx::register_class(types_[i]); }
  bool general() const { return general_; }
  ncx::ScalarOp op(size_t i) const { return ops_[i]; }
  const KernelTable& kernels() const { return kernels_; }

  // Buffers that a worker needs besides its own ones: for the plan and to put results aside.
  int buffers() const { return plan_.buffers + static_cast<int>(arrays()); }
  // Rough work of combining two elements.
  int cost() const { return general_ ? plan_.cost + 4 : 1; }

 private:
  friend class CombinerRun;

  const KernelTable& kernels_;
  std::vector<Dtype> types_;
  std::vector<ncx::ScalarOp> ops_;
  bool general_;
  MicroPlan plan_;
};

// The combiner at work: on the buffers of one thread.
class CombinerRun {
 public:
  // `buffers`: combiner.buffers() of kBufferStride bytes each.
  CombinerRun(const WindowCombiner& combiner, std::byte* buffers);

  // target[i] = combine(a[i], b[i]) for the first n registers. Entries of `target` are buffers
  // that may be exchanged for others; they may be those of `a` or of `b`.
  void combine(void* const* a, void* const* b, void** target, size_t n);

  // Rounds the values to their types and stores them `stride` elements apart.
  void store(size_t array, void* values, std::byte* to, int64_t stride, size_t n) const;
  // Elements `stride` apart as registers.
  void load(size_t array, const std::byte* from, int64_t stride, size_t n, void* out) const;
  // Block `out` full of one element.
  void fill(size_t array, const std::byte* element, void* out) const;
  // Block `out` full of register `value` of a block.
  void spread(size_t array, const void* value, void* out, size_t n) const;

 private:
  const WindowCombiner& c_;
  void* spare_[ncx::kMaxOutputs];
  void* pointers_[2 * ncx::kMaxOutputs + 2 * ncx::kMaxMicroOps];
};

}  // namespace onrt
