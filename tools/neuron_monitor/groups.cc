// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_monitor/groups.h"

#include <cmath>

#include "runtime/base/format.h"

namespace onrt::tools {
namespace {

using observe::DeviceMemory;
using observe::HostMemory;

// Percentages have two digits after the point, as in the documentation.
double hundredths(double percent) { return std::round(percent * 100) / 100; }

JsonWriter begin_group(double period_s) {
  JsonWriter out;
  out.begin_object().key("period").real(period_s);
  return out;
}

std::string end_group(JsonWriter& out, const std::string& error) {
  out.key("error").string(error).end_object();
  return out.take();
}

void percentiles_json(const std::optional<observe::Percentiles>& values, JsonWriter& out) {
  if (!values) {
    out.null();
    return;
  }
  out.begin_object();
  for (size_t i = 0; i < values->size(); ++i) {
    out.key(observe::kPercentileNames[i]).real((*values)[i]);
  }
  out.end_object();
}

void host_breakdown_json(const HostMemory& host, JsonWriter& out) {
  out.begin_object().key("application_memory").unsigned_integer(host.application);
  out.key("constants").unsigned_integer(host.constants);
  out.key("dma_buffers").unsigned_integer(host.dma_buffers);
  out.key("tensors").unsigned_integer(host.tensors).end_object();
}

std::string uuid_text(const std::array<uint8_t, 16>& uuid) {
  std::string text;
  for (const uint8_t byte : uuid) {
    text += format("{:02x}", byte);
  }
  return text;
}

// Memory that was allocated when the model was loaded.
void model_json(const observe::ModelUse& use, const emu::ProcessSnapshot& process,
                const MachineInfo& info, JsonWriter& out) {
  const emu::ModelSnapshot& model = *use.model;
  out.begin_object().key("name").string(model.name);
  out.key("uuid").string(uuid_text(model.uuid));
  out.key("model_id").unsigned_integer(model.model);
  out.key("is_running").boolean(use.running);
  out.key("subgraphs").begin_object().key("sg_00").begin_object();
  out.key("memory_used_bytes").begin_object();
  out.key("host").integer(0);
  out.key("neuron_device").unsigned_integer(model.code_bytes + model.constants_bytes);
  out.key("usage_breakdown").begin_object().key("host");
  host_breakdown_json({}, out);
  out.key("neuron_device").begin_object();
  out.key("constants").unsigned_integer(model.constants_bytes);
  out.key("model_code").unsigned_integer(model.code_bytes);
  out.key("runtime_memory").integer(0);
  out.key("tensors").integer(0).end_object();
  out.end_object().end_object();
  const int per_device = info.physical_cores_per_device / process.logical_core_size;
  out.key("neuroncore_index").integer(use.device * per_device + use.index);
  out.key("neuron_device_index").integer(use.device);
  out.end_object().end_object().end_object();
}

void cpu_states_json(const std::array<double, 7>& percent, JsonWriter& out) {
  out.begin_object();
  for (size_t i = 0; i < percent.size(); ++i) {
    out.key(observe::kCpuStates[i]).real(hundredths(percent[i]));
  }
  out.end_object();
}

// "trn2.48xlarge" -> "trn2", "inf2.xlarge" -> "inf2", "trn3-gen1" -> "trn3".
std::string family(const std::string& instance_type) {
  return instance_type.substr(0, std::min<size_t>(4, instance_type.size()));
}

struct Hardware {
  std::string_view family;
  std::string_view device_type;
  std::string_view device_version;
};
// "v4" for trn2 is the documentation's; no public source names trn3's.
constexpr Hardware kHardware[] = {{"trn1", "trainium", "v2"},
                                  {"inf2", "inferentia2", "v2"},
                                  {"trn2", "trainium2", "v4"},
                                  {"trn3", "trainium3", ""}};

}  // namespace

std::string core_counters_json(const RuntimeView& view) {
  JsonWriter out = begin_group(view.period_s);
  out.key("neuroncores_in_use").begin_object();
  for (const observe::CoreUse& use : observe::core_use(view.before, view.now, view.process)) {
    out.key(std::to_string(use.core)).begin_object();
    out.key("neuroncore_utilization").real(hundredths(use.percent));
    out.key("flops").unsigned_integer(static_cast<uint64_t>(use.flops));
    if (view.process.logical_core_size > 1) {
      out.key(view.now.info.neuroncore_version + "d").begin_object();
      for (const observe::PhysicalUse& physical : use.physical) {
        out.key(format("nc_{}.{}", view.now.info.neuroncore_version, physical.core));
        out.begin_object().key("neuroncore_utilization").real(hundredths(physical.percent));
        out.end_object();
      }
      out.end_object();
    }
    out.end_object();
  }
  out.end_object();
  return end_group(out, "");
}

std::string execution_stats_json(const RuntimeView& view) {
  const observe::ExecutionUse use = observe::execution_use(view.before, view.now, view.process);
  JsonWriter out = begin_group(view.period_s);
  out.key("error_summary").begin_object();
  for (size_t i = 0; i < use.errors.size(); ++i) {
    out.key(observe::kErrorNames[i]).unsigned_integer(use.errors[i]);
  }
  out.end_object().key("execution_summary").begin_object();
  for (size_t i = 0; i < use.outcomes.size(); ++i) {
    out.key(observe::kOutcomeNames[i]).unsigned_integer(use.outcomes[i]);
  }
  out.end_object().key("latency_stats").begin_object().key("total_latency");
  percentiles_json(use.total_latency, out);
  out.key("device_latency");
  percentiles_json(use.device_latency, out);
  out.end_object();
  return end_group(out, "");
}

std::string memory_used_json(const RuntimeView& view) {
  const uint64_t resident = view.load ? view.load->private_bytes : 0;
  const HostMemory host = observe::host_memory(view.process, resident);
  DeviceMemory device;
  for (const int core : view.process.physical_cores) {
    device += observe::device_memory(view.now.cores[static_cast<size_t>(core)]);
  }
  JsonWriter out = begin_group(view.period_s);
  out.key("neuron_runtime_used_bytes").begin_object();
  out.key("host").unsigned_integer(host.total());
  out.key("neuron_device").unsigned_integer(device.total());
  out.key("usage_breakdown").begin_object().key("host");
  host_breakdown_json(host, out);
  out.key("neuroncore_memory_usage").begin_object();
  for (const int core : view.process.logical_cores()) {
    DeviceMemory memory;
    for (int i = 0; i < view.process.logical_core_size; ++i) {
      const auto physical = static_cast<size_t>(core * view.process.logical_core_size + i);
      if (physical < view.now.cores.size()) {
        memory += observe::device_memory(view.now.cores[physical]);
      }
    }
    out.key(std::to_string(core)).begin_object();
    out.key("constants").unsigned_integer(memory.constants);
    out.key("model_code").unsigned_integer(memory.model_code);
    out.key("model_shared_scratchpad").unsigned_integer(memory.scratchpad);
    out.key("runtime_memory").unsigned_integer(memory.runtime);
    out.key("tensors").unsigned_integer(memory.tensors).end_object();
  }
  out.end_object().end_object().end_object().key("loaded_models").begin_array();
  for (const observe::ModelUse& model : observe::models_of(view.now, view.process)) {
    model_json(model, view.process, view.now.info, out);
  }
  out.end_array();
  std::string error;
  if (!view.load) {
    error = "the host memory of the process can't be seen";
  } else if (view.process.models_not_listed != 0) {
    error = format("{} more models are loaded", view.process.models_not_listed);
  }
  return end_group(out, error);
}

std::string runtime_vcpu_json(const RuntimeView& view) {
  double user = 0;
  double system = 0;
  if (view.load && view.load_before && view.ticks_passed > 0) {
    const auto share = [&](uint64_t before, uint64_t now) {
      return now > before ? 100.0 * static_cast<double>(now - before) / view.ticks_passed : 0.0;
    };
    user = share(view.load_before->user_ticks, view.load->user_ticks);
    system = share(view.load_before->system_ticks, view.load->system_ticks);
  }
  JsonWriter out = begin_group(view.period_s);
  out.key("vcpu_usage").begin_object();
  out.key("user").real(hundredths(user)).key("system").real(hundredths(system)).end_object();
  return end_group(out, view.load ? "" : "the vCPU time of the process can't be seen");
}

std::string hardware_counters_json(const emu::MachineSnapshot* machine, double period_s,
                                   const std::string& error) {
  JsonWriter out = begin_group(period_s);
  out.key("neuron_devices");
  if (machine == nullptr) {
    out.null();
    return end_group(out, error);
  }
  out.begin_array();
  for (size_t i = 0; i < machine->devices.size(); ++i) {
    out.begin_object().key("neuron_device_index").integer(static_cast<int64_t>(i));
    out.key("mem_ecc_corrected").unsigned_integer(machine->devices[i].hbm_corrected_errors);
    out.key("mem_ecc_uncorrected").unsigned_integer(machine->devices[i].hbm_uncorrected_errors);
    out.key("sram_ecc_uncorrected").integer(0);
    out.key("sram_ecc_corrected").integer(0).end_object();
  }
  out.end_array();
  return end_group(out, "");
}

std::string vcpu_json(const Result<observe::HostTimes>& before,
                      const Result<observe::HostTimes>& now, double period_s) {
  JsonWriter out = begin_group(period_s);
  const Result<observe::HostTimes>& from = before.ok() ? before : now;
  if (!now.ok()) {
    out.key("average_usage").null().key("usage_data").null().key("context_switch_count").integer(0);
    return end_group(out, std::string(now.status().message()));
  }
  out.key("average_usage");
  cpu_states_json(observe::cpu_percent(from->all, now->all), out);
  out.key("usage_data").begin_object();
  for (const auto& [number, times] : now->each) {
    observe::CpuTimes earlier = times;
    for (const auto& [other, was] : from->each) {
      if (other == number) {
        earlier = was;
      }
    }
    out.key(std::to_string(number));
    cpu_states_json(observe::cpu_percent(earlier, times), out);
  }
  out.end_object().key("context_switch_count");
  out.unsigned_integer(now->context_switches -
                       std::min(now->context_switches, from->context_switches));
  return end_group(out, "");
}

std::string memory_info_json(const Result<observe::MemoryInfo>& info, double period_s) {
  const observe::MemoryInfo shown = info.ok() ? *info : observe::MemoryInfo();
  JsonWriter out = begin_group(period_s);
  out.key("memory_total_bytes").unsigned_integer(shown.total);
  out.key("memory_used_bytes").unsigned_integer(shown.used);
  out.key("swap_total_bytes").unsigned_integer(shown.swap_total);
  out.key("swap_used_bytes").unsigned_integer(shown.swap_used);
  return end_group(out, info.ok() ? "" : std::string(info.status().message()));
}

std::string instance_info_json(const emu::MachineSnapshot* machine, const std::string& error) {
  JsonWriter out;
  out.begin_object().key("instance_name").string("");
  out.key("instance_id").string(machine == nullptr ? "" : machine->info.instance_id);
  out.key("instance_type").string(machine == nullptr ? "" : machine->info.instance_type);
  for (const char* key : {"instance_availability_zone", "instance_availability_zone_id",
                          "instance_region", "ami_id", "subnet_id"}) {
    out.key(key).string("");
  }
  out.key("error").string(machine == nullptr
                              ? error
                              : "the machine is emulated: it has no zone, region, image or subnet");
  out.end_object();
  return out.take();
}

std::string hardware_info_json(const emu::MachineSnapshot* machine, const std::string& error) {
  const MachineInfo info = machine == nullptr ? MachineInfo() : machine->info;
  Hardware hardware{};
  for (const Hardware& row : kHardware) {
    if (machine != nullptr && row.family == family(info.instance_type)) {
      hardware = row;
    }
  }
  JsonWriter out;
  out.begin_object().key("neuron_device_type").string(hardware.device_type);
  out.key("neuron_device_version").string(hardware.device_version);
  out.key("neuroncore_version").string(machine == nullptr ? "" : observe::core_version(info));
  out.key("neuron_device_count").integer(info.device_count);
  out.key("neuron_device_memory_size")
      .unsigned_integer(info.hbm_bytes * static_cast<uint64_t>(info.hbm_per_device));
  out.key("neuroncore_per_device_count").integer(info.logical_cores_per_device());
  out.key("logical_neuroncore_config").integer(machine == nullptr ? 0 : info.logical_core_size);
  out.key("error").string(error).end_object();
  return out.take();
}

}  // namespace onrt::tools
