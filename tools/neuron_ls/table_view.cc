// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/base/format.h"
#include "tools/common/table.h"
#include "tools/neuron_ls/views.h"

namespace onrt::tools {
namespace {

// Columns that every host has, or only some.
struct Columns {
  bool connected = false;
  bool processes = false;
  bool commands = false;
};

Columns columns_of(const observe::HostView& host) {
  Columns columns;
  for (const observe::DeviceView& device : host.devices) {
    columns.connected |= !device.info.connected_devices.empty();
    for (const observe::ProcessView& process : device.processes) {
      columns.processes = true;
      columns.commands |= !process.command.empty();
    }
  }
  return columns;
}

std::string core_ids(const std::vector<int>& ids) {
  if (ids.empty()) {
    return "";
  }
  return ids.size() == 1 ? std::to_string(ids[0])
                         : std::to_string(ids.front()) + "-" + std::to_string(ids.back());
}

// "GB" is what the vendor's tool prints; the number counts GiB.
std::string memory(uint64_t bytes) { return format("{} GB", bytes >> 30); }

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

void add_columns(Table& table, const Columns& columns) {
  table.add_column({"NEURON", "DEVICE"});
  table.add_column({"NEURON", "CORES"});
  table.add_column({"NEURON", "CORE IDS"});
  table.add_column({"NEURON", "MEMORY"});
  if (columns.connected) {
    table.add_column({"CONNECTED", "DEVICES"});
  }
  table.add_column({"PCI", "BDF"});
  if (columns.processes) {
    table.add_column({"PID"});
    if (columns.commands) {
      table.add_column({"COMMAND"});
    }
    table.add_column({"RUNTIME", "VERSION"});
  }
  table.add_column({"CPU", "AFFINITY"});
  table.add_column({"NUMA", "NODE"});
}

// One row; `process` may be null, and only the first row of a device names it.
std::vector<std::string> row_of(const observe::DeviceView& device,
                                const observe::ProcessView* process, const Columns& columns,
                                size_t command_width, bool first) {
  const auto once = [&](std::string text) { return first ? std::move(text) : std::string(); };
  std::vector<std::string> cells = {
      once(std::to_string(device.info.index)), once(std::to_string(device.core_ids.size())),
      once(core_ids(device.core_ids)), once(memory(device.memory_bytes))};
  if (columns.connected) {
    cells.push_back(once(joined(device.info.connected_devices)));
  }
  cells.push_back(once(printable(device.info.pci_bdf)));
  if (columns.processes) {
    cells.push_back(process != nullptr ? std::to_string(process->pid) : "");
    if (columns.commands) {
      cells.push_back(process != nullptr ? shortened(printable(process->command), command_width)
                                         : "");
    }
    cells.push_back(process != nullptr ? printable(process->runtime_version) : "");
  }
  cells.push_back(once(printable(device.info.cpu_affinity)));
  cells.push_back(once(std::to_string(device.info.numa_node)));
  return cells;
}

}  // namespace

std::string table_view(const observe::HostView& host, size_t command_width) {
  std::string out = "instance-type: " + printable(host.machine.instance_type) + "\n";
  out += "instance-id: " + printable(host.machine.instance_id) + "\n";
  if (host.machine.architecture != Architecture::kV2) {
    out += format("logical-neuroncore-config: {}\n", host.machine.logical_core_size);
  }
  const Columns columns = columns_of(host);
  Table table;
  add_columns(table, columns);
  bool several = false;  // some device has more than one process
  for (const observe::DeviceView& device : host.devices) {
    std::vector<std::vector<std::string>> rows;
    for (const observe::ProcessView& process : device.processes) {
      rows.push_back(row_of(device, &process, columns, command_width, rows.empty()));
    }
    if (rows.empty()) {
      rows.push_back(row_of(device, nullptr, columns, command_width, true));
    }
    several |= rows.size() > 1;
    table.add_group(std::move(rows));
  }
  return out + table.text(several ? Rules::kAfterEachGroup : Rules::kOutside);
}

}  // namespace onrt::tools
