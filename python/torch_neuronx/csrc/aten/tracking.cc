// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/aten/tracking.h"

#include <ATen/native/CPUFallback.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

namespace tnx {
namespace {

using Stack = torch::jit::Stack;

struct Tracker {
  std::mutex mutex;
  std::unordered_map<std::string, OpCount> counts;
  std::set<std::string> warned;
  std::map<std::string, std::atomic<uint64_t>> native;  // nodes stay where they are
  std::function<std::string()> source_hook;
  std::atomic<FallbackMode> mode{FallbackMode::kWarn};

  static Tracker& get() {
    static auto* const self = new Tracker;
    return *self;
  }
  OpCount& of(const std::string& name) {  // with the lock held
    OpCount& count = counts[name];
    count.name = name;
    return count;
  }
};

// Whether what has a lowering, but not for these arguments, is an error too.
bool only_unimplemented() {
  static const bool value = [] {
    const char* text = std::getenv("TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS");
    return text != nullptr && std::string(text) == "1";
  }();
  return value;
}

uint64_t bytes_of_stack(const Stack& stack, size_t from) {
  uint64_t bytes = 0;
  for (size_t i = from; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      const at::Tensor& tensor = stack[i].toTensor();
      bytes += tensor.defined() ? tensor.nbytes() : 0;
    } else if (stack[i].isTensorList()) {
      for (const at::Tensor& tensor : stack[i].toTensorVector()) {
        bytes += tensor.defined() ? tensor.nbytes() : 0;
      }
    }
  }
  return bytes;
}

}  // namespace

std::string full_name(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// Runs the operation on the CPU: copies there and back.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& reason) {
  Tracker& tracker = Tracker::get();
  const std::string name = full_name(op);
  const FallbackMode mode = tracker.mode.load();
  TORCH_CHECK_NOT_IMPLEMENTED(mode != FallbackMode::kError, name,
                              " is not implemented on device neuron (", reason,
                              ") and falling back to the CPU is off");
  TORCH_CHECK_NOT_IMPLEMENTED(!only_unimplemented() || reason == kNoLowering, name,
                              " is implemented on device neuron, but not for these arguments (",
                              reason,
                              "), and TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS is set");
  bool warn = false;
  bool first = false;
  {
    const std::lock_guard lock(tracker.mutex);
    first = !tracker.counts.contains(name);
    warn = tracker.warned.insert(name).second && mode == FallbackMode::kWarn;
  }
  if (warn) {
    TORCH_WARN(name, " runs on the CPU (", reason,
               "); torch_neuronx.get_fallback_ops() lists what did");
  }
  // Without the lock: the hook takes Python's.
  const std::string source = first && tracker.source_hook ? tracker.source_hook() : "";
  const size_t begin = stack->size() - op.schema().arguments().size();
  const uint64_t in = bytes_of_stack(*stack, begin);
  const auto start = std::chrono::steady_clock::now();
  at::native::cpu_fallback(op, stack);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const size_t results = std::min(op.schema().returns().size(), stack->size());
  const std::lock_guard lock(tracker.mutex);
  OpCount& count = tracker.of(name);
  ++count.fallback;
  count.fallback_bytes += in + bytes_of_stack(*stack, stack->size() - results);
  count.fallback_seconds += seconds.count();
  count.reason = reason;
  if (!source.empty()) {
    count.source = source;
  }
}
std::atomic<uint64_t>& native_count(const std::string& name) {
  Tracker& tracker = Tracker::get();
  const std::lock_guard lock(tracker.mutex);
  return tracker.native[name];
}

std::vector<OpCount> op_counts() {
  Tracker& tracker = Tracker::get();
  const std::lock_guard lock(tracker.mutex);
  auto counts = tracker.counts;
  for (const auto& [name, native] : tracker.native) {
    if (native > 0) {
      OpCount& count = counts[name];
      count.name = name;
      count.native = native;
    }
  }
  std::vector<OpCount> list;
  for (auto& [name, count] : counts) {
    list.push_back(std::move(count));
  }
  return list;
}

void clear_op_counts() {
  Tracker& tracker = Tracker::get();
  const std::lock_guard lock(tracker.mutex);
  tracker.counts.clear();
  tracker.warned.clear();
  for (auto& [name, native] : tracker.native) {
    native = 0;
  }
}

void set_source_hook(std::function<std::string()> hook) {
  Tracker::get().source_hook = std::move(hook);
}

void set_fallback_mode(FallbackMode mode) { Tracker::get().mode = mode; }
}  // namespace tnx
