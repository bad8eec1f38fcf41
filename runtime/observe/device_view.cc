// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "runtime/base/format.h"
#include "runtime/observe/host_view.h"

namespace onrt::observe {
namespace {

ProcessView view_of_process(const emu::ProcessSnapshot& process) {
  ProcessView view;
  view.pid = process.pid;
  // In another pid namespace the tag is all that tells processes apart.
  view.command = process.pid == 0 && process.command.empty() ? process.tag : process.command;
  view.runtime_version = process.runtime_version;
  return view;
}

bool uses_device(const emu::ProcessSnapshot& process, int device, int cores_per_device) {
  return std::any_of(process.physical_cores.begin(), process.physical_cores.end(),
                     [&](int core) { return core / cores_per_device == device; });
}

}  // namespace

Result<int> chosen_core_size(const Settings& settings, const MachineInfo& machine) {
  for (const auto& [setting, name] :
       {std::pair(Setting::kLogicalNcConfig, "NEURON_LOGICAL_NC_CONFIG"),
        std::pair(Setting::kVirtualCoreSize, "NEURON_RT_VIRTUAL_CORE_SIZE")}) {
    const std::string_view text = settings.text(setting);
    if (text.empty()) {
      continue;
    }
    int size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (!whole || size < 1 || size > machine.max_logical_core_size ||
        machine.physical_cores_per_device % size != 0) {
      return Status(NRT_INVALID,
                    format("{}='{}': {} has logical cores of 1 to {} physical ones", name, text,
                           machine.instance_type, machine.max_logical_core_size));
    }
    return size;
  }
  return machine.default_logical_core_size;
}

HostView view_of(const emu::MachineSnapshot& snapshot, int logical_core_size,
                 const std::vector<ProcessView>& onlookers) {
  HostView view;
  view.machine = snapshot.info;
  view.machine.logical_core_size = logical_core_size;
  view.directory = snapshot.directory;
  view.process_count = static_cast<int>(snapshot.processes.size());
  view.committed_bytes = snapshot.committed_bytes;
  view.committed_limit = snapshot.committed_limit;
  const int cores = view.machine.logical_cores_per_device();
  for (const DeviceInfo& info : snapshot.info.devices) {
    DeviceView device;
    device.info = info;
    for (int i = 0; i < cores; ++i) {
      device.core_ids.push_back(info.index * cores + i);
    }
    device.memory_bytes =
        static_cast<uint64_t>(snapshot.info.hbm_per_device) * snapshot.info.hbm_bytes;
    for (const emu::ProcessSnapshot& process : snapshot.processes) {
      if (uses_device(process, info.index, snapshot.info.physical_cores_per_device)) {
        device.processes.push_back(view_of_process(process));
      }
    }
    device.processes.insert(device.processes.end(), onlookers.begin(), onlookers.end());
    view.devices.push_back(std::move(device));
  }
  return view;
}

}  // namespace onrt::observe
