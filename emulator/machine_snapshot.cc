// SPDX-License-Identifier: Apache-2.0
#include "emulator/machine_snapshot.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "emulator/clock.h"
#include "emulator/fork_watch.h"
#include "emulator/machine_control.h"
#include "emulator/machine_file.h"
#include "emulator/machine_place.h"
#include "emulator/machine_profile.h"
#include "emulator/process_info.h"
#include "emulator/record_locks.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::emu {
namespace {

// Copies parts of the control file. A hole or a missing end reads as zeros.
class ControlReader {
 public:
  ControlReader(UniqueFd folder, UniqueFd control)
      : folder_(std::move(folder)), control_(std::move(control)) {}

  void read_into(size_t offset, void* to, size_t size) const {
    auto* const bytes = static_cast<char*>(to);
    size_t done = 0;
    while (done < size) {
      const ssize_t got =
          ::pread(control_.get(), bytes + done, size - done, static_cast<off_t>(offset + done));
      if (got <= 0) {
        std::memset(bytes + done, 0, size - done);
        break;
      }
      done += static_cast<size_t>(got);
    }
  }
  template <class T>
  std::vector<T> read(size_t offset, size_t count) const {
    std::vector<T> records(count);
    read_into(offset, records.data(), count * sizeof(T));
    return records;
  }
  int folder() const { return folder_.get(); }
  uint64_t size() const {
    struct stat status{};
    return ::fstat(control_.get(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
  }

 private:
  UniqueFd folder_;
  UniqueFd control_;
};

uint64_t amount_of_bytes(uint64_t found) { return std::min(found, kMostBytes); }
uint64_t count_of(uint64_t found) { return std::min(found, kMostCount); }

void bound_counters(std::array<uint64_t, kCoreCounters>& counters) {
  for (size_t i = 0; i < counters.size(); ++i) {
    const bool operations = i == static_cast<size_t>(CoreCounter::kMultiplyAccumulates);
    counters[i] = std::min(counters[i], operations ? kMostOperations : kMostCount);
  }
}

template <class Values, class Bound>
void bound_each(Values& values, const Bound& bound) {
  std::transform(std::begin(values), std::end(values), std::begin(values), bound);
}

size_t process_offset(size_t slot) {
  return offsetof(ControlFile, processes) + slot * sizeof(ProcessRecord);
}

Result<ControlReader> open_control(const std::string& directory) {
  UniqueFd folder = open_file(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!folder.valid()) {
    return Status(NRT_INVALID, format("{}: {}", directory, std::strerror(errno)));
  }
  UniqueFd control = open_file_at(folder.get(), "control", O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat status{};
  if (!control.valid() || ::fstat(control.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Status(NRT_INVALID,
                  format("{} holds no machine: its control file can't be read ({})", directory,
                         control.valid() ? "not a plain file" : std::strerror(errno)));
  }
  return ControlReader(std::move(folder), std::move(control));
}

// One process record, without its models, whose texts were not being changed while it was read, as
// far as can be had.
ProcessRecord read_process(const ControlReader& reader, size_t slot) {
  ProcessRecord record{};
  const size_t offset = process_offset(slot);
  for (int attempt = 0; attempt < 5; ++attempt) {
    reader.read_into(offset, &record, offsetof(ProcessRecord, models));
    const uint32_t again =
        reader.read<uint32_t>(offset + offsetof(ProcessRecord, sequence), 1).front();
    if (record.sequence == again && record.sequence % 2 == 0) {
      break;
    }
  }
  return record;
}

// Entries that were not being changed: each is read until it is the same twice.
std::vector<ModelRecord> read_models(const ControlReader& reader, size_t slot,
                                     uint32_t high_water) {
  const size_t offset = process_offset(slot) + offsetof(ProcessRecord, models);
  const size_t count = std::min<uint32_t>(high_water, kMaxModels);
  auto models = reader.read<ModelRecord>(offset, count);
  const auto again = reader.read<ModelRecord>(offset, count);
  for (size_t i = 0; i < count; ++i) {
    uint32_t after = again[i].sequence;
    for (int attempt = 0; attempt < 5 && (models[i].sequence != after || after % 2 != 0);
         ++attempt) {
      models[i] = reader.read<ModelRecord>(offset + i * sizeof(ModelRecord), 1).front();
      after = reader.read<uint32_t>(offset + i * sizeof(ModelRecord), 1).front();
    }
    if (models[i].sequence != after || after % 2 != 0) {
      models[i].id = 0;
    }
  }
  std::erase_if(models, [](const ModelRecord& model) { return model.id == 0; });
  return models;
}

// By /proc when the process is in this pid namespace. In another one, by its record lock; a member
// of the machine must not open the lock file again, because closing it would drop its own locks.
bool process_alive(const ControlReader& reader, const ProcessRecord& record, int slot) {
  if (record.pid_namespace == own_pid_namespace()) {
    const auto status = process_status(record.pid);
    return status && status->start_time == record.start_time && status->state != 'Z' &&
           status->state != 'X';
  }
  if (const auto member = own_membership(reader.folder())) {
    return member->slot_alive(slot);
  }
  UniqueFd fd = open_file_at(reader.folder(), "locks", O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  return fd.valid() && RecordLocks(std::move(fd)).holder(kSlotLockBytes + slot, 1).has_value();
}

ProcessSnapshot process_snapshot(const ControlReader& reader, const ProcessRecord& record,
                                 size_t slot) {
  ProcessSnapshot process;
  process.slot = static_cast<int>(slot);
  process.pid = record.pid_namespace == own_pid_namespace() ? record.pid : 0;
  process.start_time = record.start_time;
  process.command = load_text(record.command, sizeof(record.command));
  process.tag = load_text(record.tag, sizeof(record.tag));
  process.runtime_version = load_text(record.runtime_version, sizeof(record.runtime_version));
  process.logical_core_size =
      static_cast<int>(std::clamp<uint32_t>(record.logical_core_size, 1, kMaxCoresPerDevice));
  process.committed_bytes = amount_of_bytes(record.committed_bytes);
  process.generation = record.generation;
  std::copy_n(record.host_bytes, kHostCategories, process.host_bytes.begin());
  bound_each(process.host_bytes, amount_of_bytes);
  process.models_not_listed = count_of(record.models_not_listed);
  for (const ModelRecord& model : read_models(reader, slot, record.model_high_water)) {
    ModelSnapshot shown;
    shown.id = model.id;
    shown.core = model.core;
    shown.model = model.model;
    std::copy_n(model.uuid, shown.uuid.size(), shown.uuid.begin());
    shown.code_bytes = amount_of_bytes(model.code_bytes);
    shown.constants_bytes = amount_of_bytes(model.constants_bytes);
    shown.name = load_text(model.name, sizeof(model.name));
    process.models.push_back(std::move(shown));
  }
  return process;
}

void read_processes(const ControlReader& reader, uint32_t slots, MachineSnapshot* snapshot) {
  for (size_t slot = 0; slot < std::min<size_t>(slots, kMaxProcesses); ++slot) {
    const ProcessRecord record = read_process(reader, slot);
    if (record.state == static_cast<uint32_t>(SlotState::kInUse) &&
        process_alive(reader, record, static_cast<int>(slot))) {
      snapshot->processes.push_back(process_snapshot(reader, record, slot));
      snapshot->committed_bytes += snapshot->processes.back().committed_bytes;
    }
  }
}

// Position of slot `slot` in the snapshot's processes, -1 when it is not alive.
int process_index(const MachineSnapshot& snapshot, uint32_t slot) {
  for (size_t i = 0; i < snapshot.processes.size(); ++i) {
    if (static_cast<uint32_t>(snapshot.processes[i].slot) == slot) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void read_cores(const ControlReader& reader, MachineSnapshot* snapshot) {
  const auto count =
      static_cast<size_t>(snapshot->info.device_count * snapshot->info.physical_cores_per_device);
  const auto statistics =
      reader.read<CoreStatisticsRecord>(offsetof(ControlFile, statistics), count);
  snapshot->read_at_ns = monotonic_ns();
  const auto records = reader.read<CoreRecord>(offsetof(ControlFile, cores), count);
  for (size_t i = 0; i < count; ++i) {
    const CoreRecord& record = records[i];
    CoreSnapshot core;
    core.owner = record.owner == 0 ? -1 : process_index(*snapshot, record.owner - 1);
    core.device_clock_ns = count_of(record.device_clock_ns);
    core.programs_completed = count_of(record.programs_completed);
    core.programs_failed = count_of(record.programs_failed);
    const CoreStatisticsRecord& counted = statistics[i];
    for (size_t c = 0; c < kCoreCounters; ++c) {
      core.counters_of_all_owners[c] = counted.earlier[c] + counted.live.counters[c];
    }
    bound_counters(core.counters_of_all_owners);
    // A dead owner's open execution ended with it.
    core.busy_ns = count_of(
        busy_sum(record.busy, core.owner >= 0 ? snapshot->read_at_ns : record.busy_since_ns));
    if (core.owner >= 0) {
      core.owner_busy_ns = core.busy_ns - std::min(core.busy_ns, record.busy_before_owner);
      std::copy_n(record.bytes, kMemoryCategories, core.bytes.begin());
      bound_each(core.bytes, amount_of_bytes);
      std::copy_n(record.peak, kMemoryCategories, core.peak.begin());
      bound_each(core.peak, amount_of_bytes);
      std::copy_n(record.last_change, kMemoryCategories, core.last_change.begin());
      bound_each(core.last_change, [](int64_t change) {
        constexpr auto kMost = static_cast<int64_t>(kMostBytes);
        return std::clamp(change, -kMost, kMost);
      });
      core.busy = is_busy(record.busy);
      core.counters = counted.live.counters;
      bound_counters(core.counters);
      core.running_model = counted.live.running_model;
      core.total_latency = counted.live.total_latency;
      core.device_latency = counted.live.device_latency;
      snapshot->processes[static_cast<size_t>(core.owner)].physical_cores.push_back(
          static_cast<int>(i));
    }
    snapshot->cores.push_back(core);
  }
}

// Extents of dead processes don't count: the next process that joins reclaims them.
HbmUsage stack_usage(const ControlReader& reader, const MachineSnapshot& snapshot, size_t stack,
                     uint32_t entries) {
  HbmUsage usage;
  usage.limit = snapshot.info.hbm_bytes - kReservedHbmBytes;
  std::vector<std::pair<uint64_t, uint64_t>> runs;
  const size_t offset =
      offsetof(ControlFile, extents) + stack * kMaxExtentsPerStack * sizeof(ExtentRecord);
  for (const ExtentRecord& record : reader.read<ExtentRecord>(offset, entries)) {
    const bool sane = record.size <= snapshot.info.hbm_bytes &&
                      record.offset <= snapshot.info.hbm_bytes - record.size;
    if (record.state == static_cast<uint32_t>(ExtentState::kOwned) && sane &&
        process_index(snapshot, record.owner) >= 0) {
      usage.used += record.size;
      runs.emplace_back(record.offset, record.offset + record.size);
    }
  }
  std::sort(runs.begin(), runs.end());
  uint64_t end = kReservedHbmBytes;
  for (const auto& [start, stop] : runs) {
    usage.largest = std::max(usage.largest, start > end ? start - end : 0);
    end = std::max(end, stop);
  }
  usage.largest = std::max(usage.largest, snapshot.info.hbm_bytes - end);
  return usage;
}

void read_memory(const ControlReader& reader, MachineSnapshot* snapshot) {
  const auto devices = static_cast<size_t>(snapshot->info.device_count);
  for (const DeviceCounterRecord& record :
       reader.read<DeviceCounterRecord>(offsetof(ControlFile, counters), devices)) {
    snapshot->devices.push_back({count_of(record.dma_descriptors), count_of(record.dma_bytes), 0, 0,
                                 count_of(record.hbm_corrected_errors),
                                 count_of(record.hbm_uncorrected_errors)});
  }
  for (size_t i = 0; i < snapshot->cores.size(); ++i) {
    const CoreSnapshot& core = snapshot->cores[i];
    DeviceCounters& device =
        snapshot->devices[i / static_cast<size_t>(snapshot->info.physical_cores_per_device)];
    device.programs_failed += core.programs_failed;
    device.programs_started += core.programs_failed + core.programs_completed;
  }
  const size_t stacks = devices * static_cast<size_t>(snapshot->info.hbm_per_device);
  const auto records = reader.read<StackRecord>(offsetof(ControlFile, stacks), stacks);
  for (size_t stack = 0; stack < stacks; ++stack) {
    const uint32_t entries =
        std::min<uint32_t>(records[stack].extent_high_water, kMaxExtentsPerStack);
    snapshot->hbm.push_back(stack_usage(reader, *snapshot, stack, entries));
  }
}

// An instance type without a machine: everything idle.
MachineSnapshot idle_snapshot(MachineInfo info) {
  MachineSnapshot snapshot;
  snapshot.info = std::move(info);
  snapshot.read_at_ns = monotonic_ns();
  const auto devices = static_cast<size_t>(snapshot.info.device_count);
  const auto per_device = static_cast<size_t>(snapshot.info.physical_cores_per_device);
  snapshot.cores.resize(devices * per_device);
  snapshot.devices.resize(devices);
  HbmUsage usage;
  usage.limit = snapshot.info.hbm_bytes - kReservedHbmBytes;
  usage.largest = usage.limit;
  snapshot.hbm.assign(devices * static_cast<size_t>(snapshot.info.hbm_per_device), usage);
  return snapshot;
}

// False when there is no control file, or its first bytes are still missing.
bool machine_is_made(const std::string& directory) {
  const UniqueFd fd = open_file(directory + "/control", O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  char first = 0;
  if (!fd.valid()) {
    return errno != ENOENT;
  }
  return ::pread(fd.get(), &first, 1, 0) == 1 && first != 0;
}

// Root may look at a machine that only its owner may use.
bool is_of_another_user(const std::string& directory) {
  struct stat status{};
  return ::geteuid() == 0 && ::lstat(directory.c_str(), &status) == 0 && status.st_uid != 0;
}

bool names_repeat(const std::vector<MachineEntry>& machines) {
  for (size_t i = 1; i < machines.size(); ++i) {  // sorted by name
    if (machines[i].name == machines[i - 1].name) {
      return true;
    }
  }
  return false;
}

Result<MachineSnapshot> only_machine(const Context& context) {
  std::vector<MachineEntry> machines = list_machines(context);
  std::erase_if(machines, [](const MachineEntry& entry) {
    return static_cast<uid_t>(entry.uid) != ::geteuid();
  });
  if (machines.empty()) {
    return Status(NRT_FAILURE,
                  "no Neuron device: OPENNRT_EMULATE is not set, and this user has no "
                  "emulated machine");
  }
  if (machines.size() > 1) {
    const bool repeat = names_repeat(machines);
    std::string names;
    for (const MachineEntry& entry : machines) {
      names += (names.empty() ? "" : ", ") + (repeat ? entry.directory : entry.name);
    }
    return Status(NRT_FAILURE,
                  format("{} emulated machines ({}): choose one with OPENNRT_MACHINE{}",
                         machines.size(), names, repeat ? " and OPENNRT_MACHINE_DIR" : ""));
  }
  return read_machine(machines.front().directory);
}

}  // namespace

std::vector<int> ProcessSnapshot::logical_cores() const {
  std::vector<int> cores;
  for (const int core : physical_cores) {
    const int logical = core / logical_core_size;
    if (cores.empty() || cores.back() != logical) {
      cores.push_back(logical);
    }
  }
  return cores;
}

std::vector<MachineEntry> list_machines(const Context& context) {
  std::vector<MachineEntry> machines;
  for (const std::string& root : reader_roots(context)) {
    DIR* folder = ::opendir(root.c_str());
    if (folder == nullptr) {
      continue;
    }
    while (const dirent* entry = ::readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): own stream
      const auto name = machine_name_of(entry->d_name);
      struct stat status{};
      const std::string path = root + "/" + entry->d_name;
      if (name && ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
        machines.push_back({*name, path, static_cast<int>(status.st_uid)});
      }
    }
    ::closedir(folder);
  }
  std::sort(machines.begin(), machines.end(), [](const MachineEntry& a, const MachineEntry& b) {
    return std::tie(a.name, a.directory) < std::tie(b.name, b.directory);
  });
  return machines;
}

Result<MachineSnapshot> read_machine(const std::string& directory) {
  ONRT_ASSIGN_OR_RETURN(const ControlReader reader, open_control(directory));
  const ControlHeader header = reader.read<ControlHeader>(0, 1).front();
  if (header.magic[0] == 0) {
    return Status(NRT_FAILURE, format("{}: the machine is being made", directory));
  }
  ONRT_RETURN_IF_ERROR(check_header(header, reader.size()).annotate(directory));
  const auto profile_record = reader.read<ProfileRecord>(offsetof(ControlFile, profile), 1).front();
  const auto device_records =
      reader.read<DeviceRecord>(offsetof(ControlFile, devices), kMaxDevices);
  auto profile = load_profile(profile_record, device_records.data());
  if (!profile.ok()) {
    return std::move(profile).status().annotate(directory);
  }
  MachineSnapshot snapshot;
  snapshot.directory = directory;
  snapshot.info = std::move(profile).value().info;
  snapshot.info.name =
      machine_name_of(directory.substr(directory.rfind('/') + 1)).value_or(std::string());
  snapshot.read_at_ns = monotonic_ns();
  snapshot.committed_limit = amount_of_bytes(header.committed_limit);
  read_processes(reader, header.slot_high_water, &snapshot);
  read_cores(reader, &snapshot);
  read_memory(reader, &snapshot);
  return snapshot;
}

Result<MachineSnapshot> read_selected_machine(const Context& context) {
  const std::string type(context.settings.text(Setting::kEmulate));
  const std::string name(context.settings.text(Setting::kMachine));
  if (type == "none") {
    return Status(NRT_FAILURE, "no Neuron device: OPENNRT_EMULATE=none");
  }
  if (type.empty() && name.empty()) {
    return only_machine(context);
  }
  if (type.empty()) {
    for (const MachineEntry& entry : list_machines(context)) {
      if (entry.name == name && static_cast<uid_t>(entry.uid) == ::geteuid()) {
        return read_machine(entry.directory);
      }
    }
    return Status(NRT_FAILURE, format("no emulated machine is called '{}'", name));
  }
  ONRT_ASSIGN_OR_RETURN(InstanceProfile profile, find_profile(context, type));
  ONRT_ASSIGN_OR_RETURN(const MachinePlace place, machine_place(context, type));
  // What would fail must not look like an idle machine.
  if (!is_of_another_user(place.directory)) {
    ONRT_ASSIGN_OR_RETURN(const Sharing sharing, sharing_of(context));
    ONRT_RETURN_IF_ERROR(
        check_machine_folder(place, sharing).annotate("machine " + place.directory));
  }
  if (!machine_is_made(place.directory)) {
    profile.info.name = place.name;
    return idle_snapshot(std::move(profile.info));
  }
  return read_machine(place.directory);
}

Status check_selected_machine(const Context& context, std::chrono::milliseconds patience) {
  const std::string type(context.settings.text(Setting::kEmulate));
  ONRT_RETURN_IF_ERROR(read_selected_machine(context).status());
  ONRT_ASSIGN_OR_RETURN(const MachinePlace place, machine_place(context, type));
  ONRT_ASSIGN_OR_RETURN(const Sharing sharing, sharing_of(context));
  ONRT_RETURN_IF_ERROR(check_machine_folder(place, sharing).annotate("machine " + place.directory));
  const UniqueFd folder = open_file(place.directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!folder.valid() || own_membership(folder.get())) {
    return ok_status();  // There is no machine yet, or this process may not touch its lock file.
  }
  UniqueFd fd = open_file_at(folder.get(), "locks", O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  const RecordLocks locks(std::move(fd));
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (const auto pid = locks.holder(kMachineLockByte, 1)) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status(NRT_TIMEOUT,
                    format("machine {}: pid {} holds its lock and does not let go; is it stopped?",
                           place.directory, *pid));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return ok_status();
}

}  // namespace onrt::emu
