// SPDX-License-Identifier: Apache-2.0
// What neuron-monitor, neuron-top and the sysfs tree say of processes: memory by category, and what
// happened between two snapshots. Pure functions; nothing here looks at the host.
// Source of groups and names: SDK documentation, neuron-monitor and neuron-top user guides.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/machine_snapshot.h"

namespace onrt::observe {

// Device memory in the categories of neuron-monitor; every byte is in one of them.
struct DeviceMemory {
  uint64_t constants = 0;
  uint64_t model_code = 0;
  uint64_t scratchpad = 0;  // "model_shared_scratchpad"
  uint64_t runtime = 0;
  uint64_t tensors = 0;

  uint64_t total() const { return constants + model_code + scratchpad + runtime + tensors; }
  DeviceMemory& operator+=(const DeviceMemory& other);
};
DeviceMemory device_memory(const emu::CoreSnapshot& core);

struct HostMemory {
  uint64_t application = 0;
  uint64_t constants = 0;
  uint64_t dma_buffers = 0;
  uint64_t tensors = 0;

  uint64_t total() const { return application + constants + dma_buffers + tensors; }
  HostMemory& operator+=(const HostMemory& other);
};
// `resident_bytes`: private memory of the process (RssAnon); emulated HBM is not part of it.
HostMemory host_memory(const emu::ProcessSnapshot& process, uint64_t resident_bytes);

// The same process in another snapshot; null when it was not there.
const emu::ProcessSnapshot* find_process(const emu::MachineSnapshot& snapshot,
                                         const emu::ProcessSnapshot& process);

// A thousand times what a core has; written without an exponent it fits in 64 bits, whatever the
// file of a machine says.
inline constexpr double kMostFlops = 1e18;

struct PhysicalUse {
  int core = 0;  // physical, counted over the machine
  double percent = 0;
};
struct CoreUse {
  int core = 0;  // logical in the owner's core size, counted over the machine
  int device = 0;
  int index = 0;       // of the core in the device
  double percent = 0;  // of the time between the snapshots that it was busy: mean of the physical
  double flops = 0;    // a second, at most kMostFlops
  std::vector<PhysicalUse> physical;
};
// The cores that the process holds, from `before` (null: when it started) to `now`.
std::vector<CoreUse> core_use(const emu::MachineSnapshot* before, const emu::MachineSnapshot& now,
                              const emu::ProcessSnapshot& process);

// p0, p1, p25, p50, p75, p99, p100 in seconds.
inline constexpr std::array<std::string_view, 7> kPercentileNames = {"p0",  "p1",  "p25", "p50",
                                                                     "p75", "p99", "p100"};
using Percentiles = std::array<double, 7>;

inline constexpr std::array<std::string_view, 6> kErrorNames = {"generic", "numerical", "transient",
                                                                "model",   "runtime",   "hardware"};
inline constexpr std::array<std::string_view, 6> kOutcomeNames = {
    "completed", "completed_with_err", "completed_with_num_err",
    "timed_out", "incorrect_input",    "failed_to_queue"};

struct ExecutionUse {
  std::array<uint64_t, 6> errors{};    // by kErrorNames
  std::array<uint64_t, 6> outcomes{};  // by kOutcomeNames
  std::optional<Percentiles> total_latency;
  std::optional<Percentiles> device_latency;
};
// Executions of the process on all its cores that ended between the snapshots.
ExecutionUse execution_use(const emu::MachineSnapshot* before, const emu::MachineSnapshot& now,
                           const emu::ProcessSnapshot& process);

// A model, and where it is.
struct ModelUse {
  const emu::ModelSnapshot* model = nullptr;
  int device = 0;
  int index = 0;  // of the core in the device
  bool running = false;
};
std::vector<ModelUse> models_of(const emu::MachineSnapshot& snapshot,
                                const emu::ProcessSnapshot& process);

// "v2", "v3", and with a "d" where a logical core is more than one physical one.
std::string core_version(const MachineInfo& info);

}  // namespace onrt::observe
