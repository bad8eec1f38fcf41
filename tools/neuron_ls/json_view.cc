// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/json.h"
#include "tools/common/table.h"
#include "tools/neuron_ls/views.h"

namespace onrt::tools {
namespace {

void device_json(const observe::HostView& host, const observe::DeviceView& device,
                 JsonWriter& out) {
  out.begin_object().key("neuron_device").integer(device.info.index);
  out.key("bdf").string(device.info.pci_bdf);
  out.key("cpu_affinity").string(device.info.cpu_affinity);
  out.key("numa_node").string(std::to_string(device.info.numa_node));
  out.key("connected_to");
  if (device.info.connected_devices.empty()) {
    out.null();
  } else {
    out.begin_array();
    for (const int other : device.info.connected_devices) {
      out.integer(other);
    }
    out.end_array();
  }
  out.key("nc_count").unsigned_integer(device.core_ids.size());
  if (host.machine.architecture != Architecture::kV2) {
    out.key("logical_neuroncore_config").integer(host.machine.logical_core_size);
  }
  out.key("memory_size").unsigned_integer(device.memory_bytes);
  out.key("neuroncore_ids").begin_array();
  for (const int core : device.core_ids) {
    out.integer(core);
  }
  out.end_array().key("neuron_processes").begin_array();
  for (const observe::ProcessView& process : device.processes) {
    out.begin_object().key("pid").integer(process.pid);
    out.key("command").string(shortened(process.command, kCommandWidth));
    out.key("neuron_runtime_version").string(process.runtime_version).end_object();
  }
  out.end_array().end_object();
}

}  // namespace

std::string json_view(const observe::HostView& host) {
  JsonWriter out(4);
  out.begin_array();
  for (const observe::DeviceView& device : host.devices) {
    device_json(host, device, out);
  }
  out.end_array();
  return out.take();
}

}  // namespace onrt::tools
