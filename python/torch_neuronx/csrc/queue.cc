// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/queue.h"

#include <sched.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "python/torch_neuronx/csrc/checks.h"
#include "python/torch_neuronx/csrc/device.h"
#include "python/torch_neuronx/csrc/work_queue.h"

namespace tnx {
namespace {

struct Task {
  enum class Kind { kProgram, kCopy, kWrite, kMark };
  Kind kind = Kind::kMark;
  std::shared_ptr<Program> program;
  std::vector<nrt_tensor_t*> inputs;
  std::vector<nrt_tensor_t*> outputs;
  nrt_tensor_t* from = nullptr;
  nrt_tensor_t* to = nullptr;
  size_t offset = 0;        // of `to`
  size_t size = 0;          // of a copy
  std::vector<char> bytes;  // of a write, or of a program's prelude
  std::shared_ptr<Mark> mark;
};

// More than this is not copied into the queue: the caller waits and writes itself.
constexpr size_t kMostQueuedBytes = size_t{256} << 10;

void write_now(nrt_tensor_t* to, size_t offset, const void* from, size_t bytes) {
  check(runtime().nrt_tensor_write(to, from, offset, bytes), "nrt_tensor_write");
}

}  // namespace

class DeviceQueue {
 public:
  DeviceQueue() : work_(&run, processors() > 1) {}

  template <class Fill>
  uint64_t push(bool urgent, Fill&& fill) {
    const uint64_t number = work_.push(urgent, std::forward<Fill>(fill));
    if (blocking()) {
      work_.wait(number);
    }
    return number;
  }
  WorkQueue<Task>& work() { return work_; }

 private:
  // CPUs this process may use: with one, a worker would only be in the way.
  static int processors() {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 2;
  }

  static bool blocking() {
    static const bool value = [] {
      const char* text = std::getenv("NEURON_LAUNCH_BLOCKING");
      return text != nullptr && std::string(text) == "1";
    }();
    return value;
  }

  static void run(Task& task, bool dropped) {
    if (task.kind == Task::Kind::kMark) {
      task.mark->when_ = std::chrono::steady_clock::now();
      task.mark->reached_.store(true, std::memory_order_release);
      task.mark.reset();
      return;
    }
    if (dropped) {
      return;
    }
    switch (task.kind) {
      case Task::Kind::kProgram:
        task.program->run(task.inputs, task.outputs, {task.to, task.offset, task.bytes});
        break;
      case Task::Kind::kCopy:
        check(runtime().nrt_tensor_copy(task.from, 0, task.to, 0, task.size), "nrt_tensor_copy");
        break;
      case Task::Kind::kWrite:
        write_now(task.to, task.offset, task.bytes.data(), task.bytes.size());
        break;
      case Task::Kind::kMark:
        break;
    }
  }

  WorkQueue<Task> work_;
};

namespace {

// Queues live as long as the process: tensors are freed while it ends. More devices than any
// instance has (driver-and-tools: 128 cores).
constexpr size_t kMostDevices = 1024;
std::array<std::atomic<DeviceQueue*>, kMostDevices> queues{};

DeviceQueue* known_queue(int device) {
  return device >= 0 && static_cast<size_t>(device) < kMostDevices
             ? queues[static_cast<size_t>(device)].load(std::memory_order_acquire)
             : nullptr;
}

DeviceQueue& queue_of(int device) {
  if (DeviceQueue* queue = known_queue(device)) {
    return *queue;
  }
  core_of(device);  // throws unless it is ours
  if (static_cast<size_t>(device) >= kMostDevices) {
    throw Error("neuron:" + std::to_string(device) + ": there are at most " +
                std::to_string(kMostDevices) + " devices");
  }
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::atomic<DeviceQueue*>& place = queues[static_cast<size_t>(device)];
  if (place.load() == nullptr) {
    place.store(new DeviceQueue, std::memory_order_release);
  }
  return *place.load();
}

}  // namespace

void launch(int device, const std::shared_ptr<Program>& program,
            std::span<nrt_tensor_t* const> inputs, std::span<nrt_tensor_t* const> outputs,
            const Prelude& prelude) {
  queue_of(device).push(program->is_long(), [&](Task& task) {
    task.kind = Task::Kind::kProgram;
    if (task.program != program) {
      task.program = program;
    }
    task.inputs.assign(inputs.begin(), inputs.end());
    task.outputs.assign(outputs.begin(), outputs.end());
    task.to = prelude.tensor;
    task.offset = prelude.offset;
    task.bytes.assign(prelude.bytes.begin(), prelude.bytes.end());
  });
}

void copy(int device, nrt_tensor_t* from, nrt_tensor_t* to, size_t bytes) {
  queue_of(device).push(bytes > kMostQueuedBytes, [&](Task& task) {
    task.kind = Task::Kind::kCopy;
    task.from = from;
    task.to = to;
    task.size = bytes;
  });
}

void write(int device, nrt_tensor_t* to, size_t offset, const void* from, size_t bytes) {
  DeviceQueue& queue = queue_of(device);
  if (bytes > kMostQueuedBytes || queue.work().idle()) {
    queue.work().wait_all();
    write_now(to, offset, from, bytes);
    return;
  }
  queue.push(false, [&](Task& task) {
    task.kind = Task::Kind::kWrite;
    task.to = to;
    task.offset = offset;
    const auto* first = static_cast<const char*>(from);
    task.bytes.assign(first, first + bytes);
  });
}

void read(int device, nrt_tensor_t* from, size_t offset, void* to, size_t bytes) {
  synchronize(device);
  check(runtime().nrt_tensor_read(from, to, offset, bytes), "nrt_tensor_read");
}

std::shared_ptr<Mark> mark(int device) {
  auto mark = std::make_shared<Mark>();
  mark->device_ = device;
  mark->number_ = queue_of(device).push(false, [&](Task& task) {
    task.kind = Task::Kind::kMark;
    task.mark = mark;
  });
  return mark;
}

bool query(const Mark& mark) {
  if (mark.reached()) {
    return true;
  }
  queue_of(mark.device()).work().hurry();
  return mark.reached();
}

void wait(const Mark& mark) {
  if (!mark.reached()) {
    queue_of(mark.device()).work().wait(mark.number());
  }
}

bool is_idle(int device) {
  DeviceQueue* const queue = known_queue(device);
  if (queue != nullptr) {
    queue->work().hurry();
  }
  return queue == nullptr || queue->work().idle();
}

uint64_t queued(int device) {
  DeviceQueue* const queue = known_queue(device);
  return queue != nullptr ? queue->work().pushed() : 0;
}

uint64_t finished(int device) {
  DeviceQueue* const queue = known_queue(device);
  return queue != nullptr ? queue->work().done() : 0;
}

void synchronize(int device) {
  if (DeviceQueue* const queue = known_queue(device)) {
    queue->work().wait_all();
    throw_failed_check(device);
  }
}

void drain(int device) {
  if (DeviceQueue* const queue = known_queue(device)) {
    queue->work().drain();
  }
}

void drain_all() {
  for (const auto& queue : queues) {
    if (DeviceQueue* const known = queue.load()) {
      known->work().drain();
    }
  }
}

void stop_queues() {
  for (const auto& queue : queues) {
    if (DeviceQueue* const known = queue.load()) {
      known->work().stop();
    }
  }
}

}  // namespace tnx
