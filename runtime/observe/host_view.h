// SPDX-License-Identifier: Apache-2.0
// What an observing tool shows of this host: devices, cores, and who uses them. Read-only: never
// initialises the runtime, never creates a machine, never waits for another process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/machine_snapshot.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/driver/driver.h"

namespace onrt::observe {

// A process that uses a device.
struct ProcessView {
  int pid = 0;                  // 0: it lives in another pid namespace
  std::string command;          // command line; "" when it can't be seen
  std::string runtime_version;  // "NA" for a process without a Neuron runtime
};

struct DeviceView {
  DeviceInfo info;
  std::vector<int> core_ids;  // logical, counted over the host
  uint64_t memory_bytes = 0;
  std::vector<ProcessView> processes;
};

struct HostView {
  MachineInfo machine;  // logical_core_size is the one in force for the reader
  std::vector<DeviceView> devices;
  std::string directory;         // of the emulated machine; "" when it hasn't been created yet
  int process_count = 0;         // that use the machine
  uint64_t committed_bytes = 0;  // host memory that backs its HBM, and what may back it
  uint64_t committed_limit = 0;
};

enum class ProcessFilter : uint8_t {
  kRuntime,  // processes that have initialised a Neuron runtime
  kAll,      // also tools that only look
};

// The host by OPENNRT_BACKEND, OPENNRT_EMULATE, ... and NEURON_LOGICAL_NC_CONFIG of `context`.
// NRT_FAILURE with one sentence when there is no device.
Result<HostView> observe_host(const Context& context, ProcessFilter filter);

// What observe_host() looks at: counters, memory and models as well. info.logical_core_size is the
// reader's.
Result<emu::MachineSnapshot> observe_machine(const Context& context);

// Would nrt_init() get the emulated machine that OPENNRT_EMULATE chooses? One sentence why not.
Status check_emulated_machine(const Context& context);

// Emulated machines that exist: of this user, or of all users for root.
std::vector<emu::MachineEntry> existing_machines(const Context& context);

// The part of observe_host() that looks at nothing outside. `logical_core_size` divides the
// physical cores of a device.
HostView view_of(const emu::MachineSnapshot& snapshot, int logical_core_size,
                 const std::vector<ProcessView>& onlookers);

// The reader's core size: NEURON_LOGICAL_NC_CONFIG, else the machine's default. NRT_INVALID that
// names variable and value when the machine can't have it.
Result<int> chosen_core_size(const Settings& settings, const MachineInfo& machine);

// Running tools that look at devices without a runtime (neuron-ls, neuron-top, neuron-monitor),
// this process included, by pid.
std::vector<ProcessView> find_onlookers();

}  // namespace onrt::observe
