// SPDX-License-Identifier: Apache-2.0
// What a device is told to do, in order: one queue a device, which all streams share. A call
// returns once its work is queued; errors of the work come out of a later call, or of this one with
// NEURON_LAUNCH_BLOCKING=1. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "python/torch_neuronx/csrc/libraries.h"
#include "python/torch_neuronx/csrc/program.h"

namespace tnx {

// Tensors in the order of parameters and results; null for those without elements. The handles
// live until retire() was called for them and the queue went past it.
void launch(int device, const std::shared_ptr<Program>& program,
            std::span<nrt_tensor_t* const> inputs, std::span<nrt_tensor_t* const> outputs,
            const Prelude& prelude = {});
void copy(int device, nrt_tensor_t* from, nrt_tensor_t* to, size_t bytes);
// `from` may be changed as soon as this returns.
void write(int device, nrt_tensor_t* to, size_t offset, const void* from, size_t bytes);
// Waits for what was queued before.
void read(int device, nrt_tensor_t* from, size_t offset, void* to, size_t bytes);

// A place in a queue, and when the queue came by.
class Mark {
 public:
  bool reached() const { return reached_.load(std::memory_order_acquire); }
  // Once reached.
  std::chrono::steady_clock::time_point when() const { return when_; }
  int device() const { return device_; }
  uint64_t number() const { return number_; }

 private:
  friend class DeviceQueue;
  friend std::shared_ptr<Mark> mark(int device);
  std::atomic<bool> reached_{false};
  std::chrono::steady_clock::time_point when_;
  int device_ = 0;
  uint64_t number_ = 0;
};
std::shared_ptr<Mark> mark(int device);
bool query(const Mark& mark);  // doesn't wait, but sees to it that the queue moves
void wait(const Mark& mark);
// Nothing is outstanding. Doesn't wait, but sees to it that the queue moves.
bool is_idle(int device);

// Number of the last task that was queued, and of the last that is done.
uint64_t queued(int device);
uint64_t finished(int device);

// Waits until everything that was queued is done; throws what went wrong there. Nothing to do for
// a device that was not used.
void synchronize(int device);
// Wait too, and leave what went wrong to the next call that may throw it.
void drain(int device);
void drain_all();
// At the end of the process: what runs is waited for, what is queued is dropped.
void stop_queues();

}  // namespace tnx
