// SPDX-License-Identifier: Apache-2.0
// Which operations ran on the device, which on the CPU, and what the CPU's cost. Thread-safe.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tnx {

// "aten::add.Tensor"
std::string full_name(const c10::OperatorHandle& op);

// The reason for operations that aren't in the table at all.
inline constexpr const char* kNoLowering = "no lowering";

// Runs the operation on the CPU, with copies there and back, and counts it.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& reason);

// How often an operation ran on the device; the reference stays good.
std::atomic<uint64_t>& native_count(const std::string& name);

struct OpCount {
  std::string name;  // "aten::add.Tensor"
  uint64_t native = 0;
  uint64_t fallback = 0;
  uint64_t fallback_bytes = 0;  // copied between host and device for it
  double fallback_seconds = 0;
  std::string reason;  // of the last fallback
  std::string source;  // "file:line" of the Python that first fell back; "" if there was none
};
std::vector<OpCount> op_counts();
void clear_op_counts();

// Who says where in the user's program we are.
void set_source_hook(std::function<std::string()> hook);

enum class FallbackMode { kWarn, kSilent, kError };
void set_fallback_mode(FallbackMode mode);

}  // namespace tnx
