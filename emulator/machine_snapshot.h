// SPDX-License-Identifier: Apache-2.0
// Read-only view of emulated machines, for observing tools. Never creates a machine, never attaches
// to one, never waits for a lock and never maps its files: reads copies of their bytes, which are
// untrusted input. Values of one process are consistent with each other; the whole is not atomic.
// Amounts are at most kMostBytes and kMostCount each, so that no sum over a machine wraps.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/driver/driver.h"

namespace onrt::emu {

inline constexpr uint64_t kMostBytes = 1ull << 44;       // ten times what an instance has
inline constexpr uint64_t kMostCount = 1ull << 55;       // of nanoseconds: a year without a pause
inline constexpr uint64_t kMostOperations = 1ull << 62;  // multiply-accumulates of a core

struct ModelSnapshot {
  uint64_t id = 0;
  int core = 0;  // logical, in the process' own core size
  uint32_t model = 0;
  std::array<uint8_t, 16> uuid{};
  uint64_t code_bytes = 0;  // accounted to it on its core
  uint64_t constants_bytes = 0;
  std::string name;
};

struct ProcessSnapshot {
  int slot = 0;             // index in the machine
  int pid = 0;              // 0 when the process lives in another pid namespace
  uint64_t start_time = 0;  // clock ticks since boot, field 22 of /proc/<pid>/stat
  std::string command;      // command line, arguments separated by spaces
  std::string tag;          // NEURON_PROCESS_TAG, else the pid
  std::string runtime_version;
  int logical_core_size = 1;
  uint64_t committed_bytes = 0;       // host memory that backs its HBM
  std::vector<int> physical_cores;    // that it holds, counted over the machine, ascending
  std::vector<ModelSnapshot> models;  // loaded now
  uint64_t models_not_listed = 0;     // loaded, too
  uint64_t generation = 0;            // of its slot: with `slot` it names the process for ever
  std::array<uint64_t, kHostCategories> host_bytes{};

  // The cores it holds as logical cores of its own core size.
  std::vector<int> logical_cores() const;
};

struct CoreSnapshot {
  int owner = -1;                                   // index in MachineSnapshot::processes
  std::array<uint64_t, kMemoryCategories> bytes{};  // HBM by category, of the present owner
  std::array<uint64_t, kMemoryCategories> peak{};
  std::array<int64_t, kMemoryCategories> last_change{};
  uint64_t busy_ns = 0;        // of all owners, open interval included; CLOCK_MONOTONIC time
  uint64_t owner_busy_ns = 0;  // of the present owner
  bool busy = false;           // runs a program now
  uint64_t device_clock_ns = 0;
  uint64_t programs_completed = 0;
  uint64_t programs_failed = 0;

  // The first physical core of a logical one has these.
  std::array<uint64_t, kCoreCounters> counters{};  // by CoreCounter, of the present owner
  std::array<uint64_t, kCoreCounters> counters_of_all_owners{};
  uint64_t running_model = 0;  // its number; 0: none
  LatencyHistogram total_latency{};
  LatencyHistogram device_latency{};

  uint64_t counter(CoreCounter which) const { return counters[static_cast<size_t>(which)]; }
};

struct MachineSnapshot {
  std::string directory;                   // "" for an instance type that has no machine yet
  uint64_t read_at_ns = 0;                 // CLOCK_MONOTONIC, when busy_ns was read
  MachineInfo info;                        // logical_core_size is the default of the instance type
  std::vector<ProcessSnapshot> processes;  // alive ones only
  std::vector<CoreSnapshot> cores;         // by physical core, counted over the machine
  std::vector<DeviceCounters> devices;
  std::vector<HbmUsage> hbm;  // device * hbm_per_device + stack

  // Sum of committed_bytes of all processes, and what they may commit together.
  uint64_t committed_bytes = 0;
  uint64_t committed_limit = 0;
};

// A machine that exists.
struct MachineEntry {
  std::string name;
  std::string directory;
  int uid = 0;
};

// Machines of the calling user (of every user when root), by name. A folder that can't be read is
// skipped. Looks in OPENNRT_MACHINE_DIR when set, else in all default places.
std::vector<MachineEntry> list_machines(const Context& context);

// The machine in `directory`. NRT_INVALID with one sentence when its files are not a machine's.
Result<MachineSnapshot> read_machine(const std::string& directory);

// What the settings mean: the machine of OPENNRT_MACHINE/OPENNRT_EMULATE, idle when it hasn't been
// created yet; a failure when nrt_init() could not use what is in its place. Without those
// variables: the only machine of this user. NRT_FAILURE with a reason when there is none or a
// choice.
Result<MachineSnapshot> read_selected_machine(const Context& context);

// Could nrt_init() use the machine that OPENNRT_EMULATE chooses? Looks at folder, files and lock,
// and waits up to `patience` for the holder of the lock. Changes nothing.
Status check_selected_machine(const Context& context, std::chrono::milliseconds patience);

}  // namespace onrt::emu
