// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/sysfs_tree.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>

#include "runtime/base/format.h"

namespace onrt::observe {
namespace {

using emu::CoreSnapshot;
using emu::MachineSnapshot;

// Version of the kernel driver whose tree this is.
constexpr const char* kDriverVersion = "2.24.7.0";

struct StatusRow {
  const char* name;
  CoreCounter counter;
};
constexpr StatusRow kStatusRows[] = {
    {"success", CoreCounter::kCompleted},
    {"failure", CoreCounter::kGenericFailure},
    {"timeout", CoreCounter::kTimedOut},
    {"exec_bad_input", CoreCounter::kIncorrectInput},
    {"hw_error", CoreCounter::kErrorHardware},
    {"execute_completed_with_error", CoreCounter::kCompletedWithError},
    {"execute_completed_with_num_error", CoreCounter::kCompletedWithNumericalError},
    {"generic_error", CoreCounter::kErrorGeneric},
    {"resource_error", CoreCounter::kErrorResource},
    {"resource_nc_error", CoreCounter::kErrorResourceCore},
    {"execute_failed_to_queue", CoreCounter::kFailedToQueue},
    {"invalid_error", CoreCounter::kErrorInvalid},
    {"unsupported_neff_version", CoreCounter::kUnsupportedNeffVersion},
    {"oob_error", CoreCounter::kOutOfBounds},
    {"hw_collectives_error", CoreCounter::kHardwareCollectives},
    {"hw_hbm_ue_error", CoreCounter::kHardwareHbm},
    {"hw_nc_ue_error", CoreCounter::kHardwareCore},
    {"hw_dma_abort_error", CoreCounter::kHardwareDmaAbort},
    {"execute_sw_nq_overflow", CoreCounter::kSoftwareQueueOverflow},
    {"execute_sw_semaphore_error", CoreCounter::kSoftwareSemaphore},
    {"execute_sw_event_error", CoreCounter::kSoftwareEvent},
    {"execute_sw_psum_collision", CoreCounter::kSoftwarePsumCollision},
    {"execute_sw_sequencer_fatal", CoreCounter::kSoftwareSequencer},
    {"hw_repairable_hbm_ue_error", CoreCounter::kHardwareRepairableHbm},
};

struct DeviceMemoryRow {
  const char* name;
  std::optional<MemoryCategory> category;  // nothing: always 0 here
};
constexpr DeviceMemoryRow kDeviceMemoryRows[] = {
    {"collectives", MemoryCategory::kCollectives},
    {"constants", MemoryCategory::kConstants},
    {"dma_rings", MemoryCategory::kDmaRings},
    {"driver_memory", std::nullopt},
    {"model_code", MemoryCategory::kModelCode},
    {"model_shared_scratchpad", MemoryCategory::kSharedScratchpad},
    {"nonshared_scratchpad", MemoryCategory::kScratchpad},
    {"notifications", MemoryCategory::kNotifications},
    {"runtime_memory", MemoryCategory::kRuntime},
    {"tensors", MemoryCategory::kTensors},
    {"uncategorized", MemoryCategory::kUncategorized},
};

struct HostMemoryRow {
  const char* name;
  std::optional<HostCategory> category;
};
constexpr HostMemoryRow kHostMemoryRows[] = {
    {"application_memory", std::nullopt},
    {"constants", HostCategory::kConstants},
    {"dma_buffers", HostCategory::kDmaBuffers},
    {"dma_rings", std::nullopt},
    {"driver_memory", std::nullopt},
    {"notifications", std::nullopt},
    {"tensors", HostCategory::kTensors},
    {"uncategorized", std::nullopt},
};

struct FamilyRow {
  std::string_view prefix;  // of the instance type
  const char* instance;
  const char* device;
};
constexpr FamilyRow kFamilies[] = {{"inf2", "Inf2", "Inferentia2"},
                                   {"trn1", "Trn1", "Trainium1"},
                                   {"trn2", "Trn2", "Trainium2"},
                                   {"trn3", "Trn3", "Trainium3"}};

const FamilyRow& family_of(const std::string& type) {
  static constexpr FamilyRow kUnknown = {"", "", ""};
  for (const FamilyRow& row : kFamilies) {
    if (type.starts_with(row.prefix)) {
      return row;
    }
  }
  return kUnknown;
}

const CoreSnapshot& core_of(const MachineSnapshot& snapshot, int core) {
  static const CoreSnapshot kNone;
  const auto index = static_cast<size_t>(core);
  return index < snapshot.cores.size() ? snapshot.cores[index] : kNone;
}

// Memory of processes that hold a core of the device.
uint64_t host_bytes(const MachineSnapshot& snapshot, int device, HostCategory category) {
  uint64_t sum = 0;
  const int per_device = std::max(1, snapshot.info.physical_cores_per_device);
  for (const emu::ProcessSnapshot& process : snapshot.processes) {
    // A process with cores of several devices is counted on its first.
    if (!process.physical_cores.empty() && process.physical_cores.front() / per_device == device) {
      sum += process.host_bytes[static_cast<size_t>(category)];
    }
  }
  return sum;
}

class TreeMaker {
 public:
  explicit TreeMaker(const MachineInfo& info)
      : info_(info), family_(family_of(info.instance_type)) {}

  std::vector<SysfsFile> make() {
    constant("module/neuron/version", 0444, std::string(kDriverVersion) + "\n");
    constant("devices/virtual/dmi/id/product_name", 0444, info_.instance_type + "\n");
    constant("devices/virtual/dmi/id/board_asset_tag", 0444, info_.instance_id + "\n");
    if (info_.instance_type.starts_with("trn2u")) {
      // Not in an UltraServer: values of the driver for a single node.
      for (const char* size : {"2", "4"}) {
        constant(format("class/neuron_device/node_id_{}", size), 0444, "-1\n");
        constant(format("class/neuron_device/server_id_{}", size), 0444, "0000000000000000\n");
      }
      constant("class/neuron_device/ultraserver_mode", 0444, "\n");
    }
    for (const DeviceInfo& device : info_.devices) {
      add_device(device);
    }
    std::sort(files_.begin(), files_.end(),
              [](const SysfsFile& a, const SysfsFile& b) { return a.path < b.path; });
    return std::move(files_);
  }

 private:
  void constant(std::string path, unsigned mode, std::string text) {
    SysfsFile file;
    file.path = std::move(path);
    file.mode = mode;
    file.device = device_;
    file.text = [text = std::move(text)](const MachineSnapshot&) { return text; };
    files_.push_back(std::move(file));
  }
  void special(std::string path, unsigned mode, SysfsKind kind, std::string text) {
    constant(std::move(path), mode, std::move(text));
    files_.back().kind = kind;
  }
  void counter(std::string path, std::function<uint64_t(const MachineSnapshot&)> number) {
    SysfsFile file;
    file.path = std::move(path);
    file.mode = 0644;
    file.kind = SysfsKind::kCounter;
    file.device = device_;
    file.number = std::move(number);
    files_.push_back(std::move(file));
  }

  void add_device(const DeviceInfo& device) {
    device_ = device.index;
    const std::string root = format("{}/neuron{}/", kSysfsDevices, device.index);
    std::string connected;
    for (const int other : device.connected_devices) {
      connected += (connected.empty() ? "" : ", ") + std::to_string(other);
    }
    constant(root + "connected_devices", 0444, connected + "\n");
    constant(root + "core_count", 0444, std::to_string(info_.physical_cores_per_device));
    special(root + "reset", 0600, SysfsKind::kReset, "1\n");
    special(root + "info/notify_delay", 0644, SysfsKind::kNotifyDelay, "-1\n");
    constant(root + "info/serial_number", 0444, format("{:016x}\n", device.serial_number));
    const std::string architecture = root + "info/architecture/";
    constant(architecture + "arch_type", 0444,
             format("NDv{}\n", static_cast<int>(info_.architecture)));
    constant(architecture + "instance_type", 0444, std::string(family_.instance) + "\n");
    constant(architecture + "device_name", 0444, std::string(family_.device) + "\n");
    add_device_stats(root + "stats/");
    for (int i = 0; i < info_.physical_cores_per_device; ++i) {
      add_core(format("{}neuron_core{}/", root, i),
               device.index * info_.physical_cores_per_device + i);
    }
  }

  void add_device_stats(const std::string& stats) {
    const int device = device_;
    const auto ecc = [&](const char* name, uint64_t DeviceCounters::* field) {
      counter(stats + "hardware/" + name, [device, field](const MachineSnapshot& snapshot) {
        const auto index = static_cast<size_t>(device);
        return field != nullptr && index < snapshot.devices.size() ? snapshot.devices[index].*field
                                                                   : 0;
      });
    };
    ecc("mem_ecc_uncorrected", &DeviceCounters::hbm_uncorrected_errors);
    ecc("mem_ecc_corrected", &DeviceCounters::hbm_corrected_errors);
    ecc("mem_ecc_repairable_uncorrected", nullptr);
    ecc("sram_ecc_uncorrected", nullptr);
    ecc("sram_ecc_corrected", nullptr);
    SysfsFile power;
    power.path = stats + "power/utilization";
    power.device = device;
    power.text = [](const MachineSnapshot&) {
      const auto now = std::chrono::duration_cast<std::chrono::minutes>(
          std::chrono::system_clock::now().time_since_epoch());
      return format("POWER_STATUS_NO_DATA,{},0.00,0.00,0.00\n", now.count() * 60);
    };
    files_.push_back(std::move(power));
    const std::string host = stats + "memory_usage/host_mem/";
    for (const HostMemoryRow& row : kHostMemoryRows) {
      for (const char* part : {"total", "present", "peak"}) {
        counter(format("{}{}/{}", host, row.name, part),
                [device, category = row.category](const MachineSnapshot& snapshot) {
                  return category ? host_bytes(snapshot, device, *category) : 0;
                });
      }
    }
  }

  void add_core(const std::string& root, int core) {
    constant(root + "info/architecture/arch_type", 0444,
             format("NCv{}\n", static_cast<int>(info_.architecture)));
    const std::string stats = root + "stats/";
    for (const StatusRow& row : kStatusRows) {
      counted(format("{}status/{}/", stats, row.name), core, row.counter, 1);
    }
    counted(stats + "other_info/flop_count/", core, CoreCounter::kMultiplyAccumulates, 2);
    counted(stats + "other_info/inference_count/", core, CoreCounter::kInferences, 1);
    counted(stats + "other_info/model_load_count/", core, CoreCounter::kModelLoads, 1);
    for (const char* never : {"reset_req_count", "reset_fail_count"}) {
      for (const char* part : {"total", "present"}) {
        counter(format("{}other_info/{}/{}", stats, never, part),
                [](const MachineSnapshot&) { return 0; });
      }
    }
    counter(stats + "other_info/nc_time_in_use/total", [core](const MachineSnapshot& snapshot) {
      return core_of(snapshot, core).busy_ns / 1000;
    });
    counter(stats + "other_info/nc_time_in_use/present", [core](const MachineSnapshot& snapshot) {
      return core_of(snapshot, core).owner_busy_ns / 1000;
    });
    if (info_.architecture == Architecture::kV3) {
      constant(stats + "tensor_engine/pe_cntrs", 0444, "0\n");
    }
    add_core_memory(stats + "memory_usage/", core);
  }

  void counted(const std::string& folder, int core, CoreCounter which, uint64_t factor) {
    const auto index = static_cast<size_t>(which);
    counter(folder + "total", [core, index, factor](const MachineSnapshot& snapshot) {
      return factor * core_of(snapshot, core).counters_of_all_owners[index];
    });
    counter(folder + "present", [core, index, factor](const MachineSnapshot& snapshot) {
      return factor * core_of(snapshot, core).counters[index];
    });
  }

  void add_core_memory(const std::string& folder, int core) {
    for (const char* part : {"total", "present", "peak"}) {
      counter(folder + "host_mem/" + part, [](const MachineSnapshot&) { return 0; });
    }
    const auto sum = [](const std::array<uint64_t, kMemoryCategories>& bytes) {
      uint64_t all = 0;
      for (const uint64_t of_one : bytes) {
        all += of_one;
      }
      return all;
    };
    const std::string device = folder + "device_mem/";
    counter(device + "total", [core, sum](const MachineSnapshot& snapshot) {
      return sum(core_of(snapshot, core).bytes);
    });
    counter(device + "present", [core](const MachineSnapshot& snapshot) {
      uint64_t change = 0;
      for (const int64_t of_one : core_of(snapshot, core).last_change) {
        change = std::max(change, static_cast<uint64_t>(std::max<int64_t>(of_one, -of_one)));
      }
      return change;
    });
    counter(device + "peak", [core, sum](const MachineSnapshot& snapshot) {
      return sum(core_of(snapshot, core).peak);
    });
    for (const DeviceMemoryRow& row : kDeviceMemoryRows) {
      const std::string category = device + row.name + "/";
      const size_t index = row.category ? static_cast<size_t>(*row.category) : kMemoryCategories;
      const auto value = [&](const char* part, auto array) {
        counter(category + part, [core, index, array](const MachineSnapshot& snapshot) -> uint64_t {
          const auto& values = core_of(snapshot, core).*array;
          if (index >= values.size()) {
            return 0;
          }
          const auto found = static_cast<int64_t>(values[index]);
          return static_cast<uint64_t>(found < 0 ? -found : found);
        });
      };
      value("total", &CoreSnapshot::bytes);
      value("present", &CoreSnapshot::last_change);
      value("peak", &CoreSnapshot::peak);
    }
  }

  const MachineInfo& info_;
  const FamilyRow& family_;
  int device_ = -1;
  std::vector<SysfsFile> files_;
};

}  // namespace

std::vector<SysfsFile> sysfs_files(const MachineInfo& info) { return TreeMaker(info).make(); }

std::vector<std::pair<std::string, std::string>> sysfs_links(const MachineInfo& info) {
  std::vector<std::pair<std::string, std::string>> links;
  links.reserve(info.devices.size());
  for (const DeviceInfo& device : info.devices) {
    links.emplace_back(format("class/neuron_device/neuron{}", device.index),
                       format("../../{}/neuron{}", kSysfsDevices, device.index));
  }
  return links;
}

std::string sysfs_text(const SysfsFile& file, const MachineSnapshot& snapshot, uint64_t cleared) {
  if (file.kind != SysfsKind::kCounter) {
    return file.text(snapshot);
  }
  const uint64_t number = file.number(snapshot);
  return format("{}\n", number - std::min(number, cleared));
}

}  // namespace onrt::observe
