// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_top/model.h"

#include <algorithm>
#include <iterator>

#include "runtime/base/format.h"
#include "runtime/base/json.h"
#include "runtime/observe/host_view.h"
#include "tools/common/args.h"

namespace onrt::tools {
namespace {

App make_app(const Look* before, const Look& now, size_t position, double ticks, int shown_size) {
  const emu::ProcessSnapshot& process = now.machine.processes[position];
  App app;
  app.pid = process.pid;
  app.tag = process.tag;
  app.command = process.command;
  const int width = std::max(1, process.logical_core_size / shown_size);
  for (const observe::CoreUse& use :
       observe::core_use(before == nullptr ? nullptr : &before->machine, now.machine, process)) {
    AppCore core{use.device, use.index * width, width, use.percent, use.flops, {}};
    for (const observe::PhysicalUse& physical : use.physical) {
      core.memory += observe::device_memory(now.machine.cores[static_cast<size_t>(physical.core)]);
    }
    app.device += core.memory;
    app.cores.push_back(core);
  }
  for (const observe::ModelUse& use : observe::models_of(now.machine, process)) {
    app.models.push_back({use.model->model, use.model->name, use.device, use.index * width,
                          use.running, use.model->code_bytes, use.model->constants_bytes});
  }
  app.host = observe::host_memory(process, now.loads[position].private_bytes);
  const emu::ProcessSnapshot* earlier =
      before == nullptr ? nullptr : observe::find_process(before->machine, process);
  if (earlier != nullptr && ticks > 0) {
    const auto& was =
        before->loads[static_cast<size_t>(earlier - before->machine.processes.data())];
    const auto share = [&](uint64_t from, uint64_t to) {
      return to > from ? 100.0 * static_cast<double>(to - from) / ticks : 0.0;
    };
    app.user_percent = share(was.user_ticks, now.loads[position].user_ticks);
    app.system_percent = share(was.system_ticks, now.loads[position].system_ticks);
  }
  return app;
}

void device_json(const observe::DeviceMemory& memory, JsonWriter& out) {
  out.begin_object().key("total").unsigned_integer(memory.total());
  out.key("tensors").unsigned_integer(memory.tensors);
  out.key("constants").unsigned_integer(memory.constants);
  out.key("model_code").unsigned_integer(memory.model_code);
  out.key("runtime_memory").unsigned_integer(memory.runtime);
  out.key("model_scratchpad").unsigned_integer(memory.scratchpad).end_object();
}

void host_json(const observe::HostMemory& memory, JsonWriter& out) {
  out.begin_object().key("total").unsigned_integer(memory.total());
  out.key("tensors").unsigned_integer(memory.tensors);
  out.key("constants").unsigned_integer(memory.constants);
  out.key("dma_buffers").unsigned_integer(memory.dma_buffers);
  out.key("application_memory").unsigned_integer(memory.application).end_object();
}

void app_json(const App& app, const MachineInfo& machine, JsonWriter& out) {
  out.begin_object().key("pid").integer(app.pid).key("tag").string(app.tag);
  out.key("command").string(app.command);
  out.key("vcpu_user_percent").real(app.user_percent);
  out.key("vcpu_system_percent").real(app.system_percent);
  out.key("host_memory");
  host_json(app.host, out);
  out.key("device_memory");
  device_json(app.device, out);
  out.key("neuroncores").begin_array();
  for (const AppCore& core : app.cores) {
    out.begin_object().key("neuroncore");
    out.integer(core.device * machine.logical_cores_per_device() + core.index);
    out.key("neuron_device").integer(core.device);
    out.key("utilization_percent").real(core.percent).key("flops").real(core.flops);
    out.key("memory");
    device_json(core.memory, out);
    out.end_object();
  }
  out.end_array().key("models").begin_array();
  for (const AppModel& model : app.models) {
    out.begin_object().key("model_id").unsigned_integer(model.id).key("name").string(model.name);
    out.key("neuroncore");
    out.integer(model.device * machine.logical_cores_per_device() + model.index);
    out.key("is_running").boolean(model.running);
    out.key("model_code").unsigned_integer(model.code_bytes);
    out.key("constants").unsigned_integer(model.constants_bytes).end_object();
  }
  out.end_array().end_object();
}

}  // namespace

Result<std::shared_ptr<const Look>> collect(const Context& context) {
  auto look = std::make_shared<Look>();
  ONRT_ASSIGN_OR_RETURN(look->machine, observe::observe_machine(context));
  auto times = observe::read_host_times();
  if (times.ok()) {
    look->times = std::move(times).value();
  }
  for (const emu::ProcessSnapshot& process : look->machine.processes) {
    look->loads.push_back(observe::read_process_load(process.pid).value_or(observe::ProcessLoad()));
  }
  return std::shared_ptr<const Look>(std::move(look));
}

TopModel make_model(const Look* before, const Look& now) {
  TopModel model;
  model.machine = now.machine.info;
  double ticks = 0;
  if (before != nullptr) {
    const auto percent = observe::cpu_percent(before->times.all, now.times.all);
    model.system_user = percent[0] + percent[1];
    model.system_system = percent[2] + percent[5] + percent[6];
    for (size_t i = 0; i < now.times.all.size(); ++i) {
      ticks += static_cast<double>(now.times.all[i]) - static_cast<double>(before->times.all[i]);
    }
  }
  int size = 0;
  for (const emu::ProcessSnapshot& process : now.machine.processes) {
    size = size == 0 ? process.logical_core_size : std::min(size, process.logical_core_size);
  }
  if (size > 0 && model.machine.physical_cores_per_device % size == 0) {
    model.machine.logical_core_size = size;
  }
  for (size_t i = 0; i < now.machine.processes.size(); ++i) {
    model.apps.push_back(make_app(before, now, i, ticks, model.machine.logical_core_size));
  }
  return model;
}

std::string short_bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return format("{:.1f}{}", value, kUnits[unit]);
}

std::string top_json(const TopModel& model) {
  JsonWriter out(2);
  out.begin_object().key("version").string(tools_version());
  out.key("instance_id").string(model.machine.instance_id);
  out.key("instance_type").string(model.machine.instance_type);
  out.key("neuroncore_version").string(observe::core_version(model.machine));
  out.key("neuron_device_count").integer(model.machine.device_count);
  out.key("neuroncore_count").integer(model.machine.logical_cores());
  double sum = 0;
  observe::HostMemory host;
  observe::DeviceMemory device;
  for (const App& app : model.apps) {
    host += app.host;
    device += app.device;
    for (const AppCore& core : app.cores) {
      sum += core.percent * core.width;
    }
  }
  out.key("utilization_average_percent")
      .real(model.machine.logical_cores() == 0 ? 0 : sum / model.machine.logical_cores());
  out.key("vcpu_user_percent").real(model.system_user);
  out.key("vcpu_system_percent").real(model.system_system);
  out.key("host_memory");
  host_json(host, out);
  out.key("device_memory");
  device_json(device, out);
  out.key("apps").begin_array();
  for (const App& app : model.apps) {
    app_json(app, model.machine, out);
  }
  out.end_array().end_object();
  return out.take() + "\n";
}

}  // namespace onrt::tools
