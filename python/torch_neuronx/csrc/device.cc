// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/device.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>

#include "python/torch_neuronx/csrc/queue.h"

namespace tnx {
namespace {

std::mutex init_mutex;
std::atomic<bool> is_initialized{false};
std::atomic<bool> forked{false};
std::atomic<bool> exiting{false};
std::atomic<int> claimed_rank{-1};  // local_rank() of initialize()
thread_local int current = -1;      // -1: not chosen, device local_rank() or 0

// With LOCAL_RANK set a process owns one core: docs/torch_neuronx.md, "Ranks and cores".
int local_rank() {
  const char* text = std::getenv("LOCAL_RANK");
  return text != nullptr && *text != '\0' ? std::atoi(text) : -1;
}

int count_visible() {
  // Without a device and without the wish to emulate one nothing is loaded and nothing is said.
  const char* emulate = std::getenv("OPENNRT_EMULATE");
  if (access("/dev/neuron0", F_OK) != 0 && (emulate == nullptr || std::string(emulate) == "none")) {
    return 0;
  }
  uint32_t count = 0;
  check(runtime().nrt_get_visible_vnc_count(&count), "nrt_get_visible_vnc_count");
  return static_cast<int>(count);
}

struct Count {
  int value = 0;
  std::string problem;
};

const Count& visible() {
  static const Count count = [] {
    Count c;
    try {
      c.value = count_visible();
    } catch (const Error& error) {
      c.problem = error.what();
    }
    return c;
  }();
  return count;
}

int first_device() { return local_rank() >= 0 ? local_rank() : 0; }

}  // namespace

int device_count() { return visible().value; }

std::string why_no_device() {
  if (device_count() > 0) {
    return "";
  }
  if (!visible().problem.empty()) {
    return visible().problem;
  }
  return "no Neuron device was found: on a machine without one set OPENNRT_EMULATE=trn2.3xlarge "
         "(or another instance type) before the program starts, to use the emulator; "
         "opennrt-doctor says what was looked for";
}

void initialize() {
  if (is_initialized.load(std::memory_order_acquire) && !forked.load()) {
    return;
  }
  if (forked.load()) {
    throw Error(
        "device \"neuron\" can't be used in a forked child of a process that uses it; start the "
        "child with multiprocessing's \"spawn\" method");
  }
  const std::lock_guard lock(init_mutex);
  if (is_initialized.load()) {
    return;
  }
  const int count = device_count();
  if (count == 0) {
    throw Error(why_no_device());
  }
  const int rank = local_rank();
  if (rank >= 0) {
    if (rank >= count) {
      throw Error("LOCAL_RANK is " + std::to_string(rank) + " and " + std::to_string(count) +
                  " cores are visible: start at most one process per core");
    }
    // The rank's core among the visible ones.
    if (std::getenv("NEURON_RT_VISIBLE_CORES") == nullptr) {
      unsetenv("NEURON_RT_NUM_CORES");
      setenv("NEURON_RT_VISIBLE_CORES", std::to_string(rank).c_str(), 1);
    } else if (count > 1) {
      throw Error(
          "LOCAL_RANK and NEURON_RT_VISIBLE_CORES are both set: leave out one of them, so that "
          "each rank takes its own core");
    }
  }
  try {
    check(runtime().nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "2.13", ""), "nrt_init");
  } catch (const Error& error) {
    throw Error(std::string(error.what()) +
                ". If another process uses the cores, give each its own: NEURON_RT_NUM_CORES=1");
  }
  pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  // Registered after the runtime's own handler, so it runs before: static objects of torch hold
  // programs and tensors, and go later.
  std::atexit([] {
    if (!forked.load()) {
      exiting.store(true);
      stop_queues();
    }
  });
  claimed_rank.store(rank);
  is_initialized.store(true, std::memory_order_release);
}

void shut_down() {
  if (is_initialized.load() && handles_live()) {
    exiting.store(true);
    stop_queues();
    runtime().nrt_close();
  }
}

bool initialized() { return is_initialized.load() && !forked.load(); }
bool handles_live() { return !exiting.load() && !forked.load(); }
bool in_bad_fork() { return forked.load(); }

int core_of(int device) {
  initialize();
  const int rank = claimed_rank.load(std::memory_order_relaxed);
  if (rank >= 0) {
    if (device != rank) {
      throw Error("neuron:" + std::to_string(device) +
                  " belongs to another process: LOCAL_RANK is " + std::to_string(rank) +
                  ", so this one has neuron:" + std::to_string(rank));
    }
    return 0;
  }
  return device;
}

int current_device() { return current >= 0 ? current : first_device(); }

int exchange_device(int device) {
  const int before = current_device();
  if (device < 0 || device >= std::max(device_count(), 1)) {
    throw Error("invalid device ordinal neuron:" + std::to_string(device) + ": there are " +
                std::to_string(device_count()) + " devices");
  }
  current = device;
  return before;
}

size_t total_memory(int device) {
  nrt_vnc_memory_stats_t stats{};
  size_t known = 0;
  check(runtime().nrt_get_vnc_memory_stats(static_cast<uint32_t>(core_of(device)), &stats,
                                           sizeof(stats), &known),
        "nrt_get_vnc_memory_stats");
  return stats.bytes_limit;
}

uint32_t instance_family() {
  initialize();
  nrt_instance_info_t info{};
  check(runtime().nrt_get_instance_info(&info, sizeof(info)), "nrt_get_instance_info");
  return info.family;
}

const char* compile_target() {
  static const char* const target = [] {
    switch (instance_family()) {
      case NRT_INSTANCE_TRN1:
        return "trn1";
      case NRT_INSTANCE_TRN1N:
        return "trn1n";
      case NRT_INSTANCE_INF2:
      case NRT_INSTANCE_INF2E:
        return "inf2";
      case NRT_INSTANCE_TRN3:
      case NRT_INSTANCE_TRN3PDS98:
        return "trn3";
      default:
        return "trn2";
    }
  }();
  return target;
}

}  // namespace tnx
