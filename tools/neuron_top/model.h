// SPDX-License-Identifier: Apache-2.0
// What neuron-top shows, taken from two looks at the machine: numbers by core, by application, and
// the tree of memory. Pure but for collect().
// Source of the layout: SDK documentation, neuron-top user guide and its images.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/observe/host_load.h"
#include "runtime/observe/usage.h"

namespace onrt::tools {

// One look at everything.
struct Look {
  emu::MachineSnapshot machine;
  observe::HostTimes times;
  std::vector<observe::ProcessLoad> loads;  // by position in machine.processes
};
Result<std::shared_ptr<const Look>> collect(const Context& context);

struct AppCore {
  int device = 0;
  int index = 0;  // in the device, in cores of the size that is shown
  int width = 1;  // cores of that size
  double percent = 0;
  double flops = 0;
  observe::DeviceMemory memory;
};
struct AppModel {
  uint32_t id = 0;
  std::string name;
  int device = 0;
  int index = 0;
  bool running = false;
  uint64_t code_bytes = 0;
  uint64_t constants_bytes = 0;
};
// A process that uses the devices.
struct App {
  int pid = 0;
  std::string tag;
  std::string command;
  std::vector<AppCore> cores;
  std::vector<AppModel> models;
  observe::HostMemory host;
  observe::DeviceMemory device;
  double user_percent = 0;  // of all vCPUs
  double system_percent = 0;
};

struct TopModel {
  MachineInfo machine;  // logical_core_size is the smallest of the processes', else the reader's
  double system_user = 0;
  double system_system = 0;
  std::vector<App> apps;
};

// `before` may be null or `now`: then nothing has happened yet.
TopModel make_model(const Look* before, const Look& now);

std::string top_json(const TopModel& model);

// "17.5GB": one digit, units of 1024, as in the documentation's images.
std::string short_bytes(uint64_t bytes);

// A row of the tree: ND, NC, model or category. A parent is the sum of its children.
struct TreeRow {
  int depth = 0;    // 0: device
  std::string key;  // for the set of expanded rows; "" for a leaf
  std::string label;
  std::string model_id;
  uint64_t device_bytes = 0;
  uint64_t host_bytes = 0;
  bool expanded = false;
  bool dim = false;  // a model that does not run now
};

}  // namespace onrt::tools
