// SPDX-License-Identifier: Apache-2.0
// The metric groups of neuron-monitor as JSON objects: data in, text out, nothing is read here.
// Source of keys and units: SDK documentation, neuron-monitor user guide.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/json.h"
#include "runtime/observe/host_load.h"
#include "runtime/observe/usage.h"

namespace onrt::tools {

// Two looks at the machine and the process; `before` is null in the first report.
struct RuntimeView {
  const emu::MachineSnapshot* before = nullptr;
  const emu::MachineSnapshot& now;
  const emu::ProcessSnapshot& process;
  double period_s = 0;
  std::optional<observe::ProcessLoad> load_before;
  std::optional<observe::ProcessLoad> load;
  double ticks_passed = 0;  // of all vCPUs together
};

std::string core_counters_json(const RuntimeView& view);
std::string execution_stats_json(const RuntimeView& view);
std::string memory_used_json(const RuntimeView& view);
std::string runtime_vcpu_json(const RuntimeView& view);

// `machine` is null when there is none; `error` says why then.
std::string hardware_counters_json(const emu::MachineSnapshot* machine, double period_s,
                                   const std::string& error);
std::string vcpu_json(const Result<observe::HostTimes>& before,
                      const Result<observe::HostTimes>& now, double period_s);
std::string memory_info_json(const Result<observe::MemoryInfo>& info, double period_s);

std::string instance_info_json(const emu::MachineSnapshot* machine, const std::string& error);
std::string hardware_info_json(const emu::MachineSnapshot* machine, const std::string& error);

}  // namespace onrt::tools
