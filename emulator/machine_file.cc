// SPDX-License-Identifier: Apache-2.0
#include "emulator/machine_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <tuple>

#include "emulator/fork_watch.h"
#include "emulator/machine_transaction.h"
#include "emulator/process_info.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::emu {
namespace {

constexpr std::chrono::milliseconds kLockTimeout{10000};

std::pair<uint64_t, uint64_t> inode_of(const struct stat& status) {
  return {static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino)};
}

// The start of a ProcessRecord.
struct SlotIdentity {
  uint32_t state;
  uint32_t sequence;
  int32_t pid;
  uint32_t logical_core_size;
  uint64_t start_time;
  uint64_t pid_namespace;
};
static_assert(offsetof(SlotIdentity, pid) == offsetof(ProcessRecord, pid));
static_assert(offsetof(SlotIdentity, start_time) == offsetof(ProcessRecord, start_time));
static_assert(offsetof(SlotIdentity, pid_namespace) == offsetof(ProcessRecord, pid_namespace));

bool same_profile(const InstanceProfile& a, const InstanceProfile& b) {
  const auto key = [](const InstanceProfile& p) {
    return std::tie(p.info.instance_type, p.info.architecture, p.info.device_count,
                    p.info.physical_cores_per_device, p.info.default_logical_core_size,
                    p.info.max_logical_core_size, p.info.hbm_per_device, p.info.hbm_bytes,
                    p.info.hbm_base, p.info.neuroncore_version, p.dma_engines, p.queues_per_engine);
  };
  return key(a) == key(b) &&
         std::equal(a.info.devices.begin(), a.info.devices.end(), b.info.devices.begin(),
                    b.info.devices.end(), [](const DeviceInfo& x, const DeviceInfo& y) {
                      return x.pci_bdf == y.pci_bdf && x.numa_node == y.numa_node &&
                             x.cpu_affinity == y.cpu_affinity &&
                             x.connected_devices == y.connected_devices;
                    });
}

}  // namespace

std::shared_ptr<MachineFile> own_membership(int folder) {
  struct stat status{};
  if (::fstatat(folder, "locks", &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return nullptr;
  }
  ProcessMachines& machines = process_machines();
  const MutexLock lock(machines.mutex);
  const auto known = machines.by_inode.find(inode_of(status));
  return known == machines.by_inode.end() ? nullptr : known->second.lock();
}

Result<std::shared_ptr<MachineFile>> MachineFile::attach(const Context& context,
                                                         const MachinePlace& place,
                                                         const InstanceProfile& profile,
                                                         const AttachOptions& options) {
  ProcessMachines& machines = process_machines();
  if (machines.parent_joined) {
    return Status(NRT_FAILURE,
                  "this process is in state CHILD: its parent used the machine before "
                  "fork(); exec a new program or attach only after fork()");
  }
  ONRT_ASSIGN_OR_RETURN(const Sharing sharing, sharing_of(context));
  while (true) {
    {
      const MutexLock registry_lock(machines.mutex);
      struct stat status{};
      const bool exists = ::stat((place.directory + "/locks").c_str(), &status) == 0;
      const auto known =
          exists ? machines.by_inode.find(inode_of(status)) : machines.by_inode.end();
      if (known == machines.by_inode.end()) {
        return join_new(context, place, sharing, profile, options, machines);
      }
      if (auto file = known->second.lock()) {
        if (!same_profile(file->profile(), profile)) {
          return Status(NRT_FAILURE, format("this process already uses machine '{}' as {}",
                                            place.name, file->profile().info.instance_type));
        }
        return file;
      }
    }
    // Another thread is leaving the machine: its object must close the lock file first.
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

Result<std::shared_ptr<MachineFile>> MachineFile::join_new(
    const Context& context, const MachinePlace& place, const Sharing& sharing,
    const InstanceProfile& profile, const AttachOptions& options, ProcessMachines& machines) {
  std::shared_ptr<MachineFile> file(new MachineFile(place, sharing));
  {
    const MutexLock lock(file->mutex_);
    ONRT_RETURN_IF_ERROR(
        file->join(context, profile, options).annotate("machine " + place.directory));
  }
  machines.by_inode[file->locks_inode_] = file;
  return file;
}

MachineFile::~MachineFile() {
  if (slot_ < 0 || !check_process().ok()) {
    return;
  }
  ProcessMachines& machines = process_machines();
  const MutexLock registry_lock(machines.mutex);
  detach();
  machines.by_inode.erase(locks_inode_);
  if (!check_lock_file().ok()) {
    abandon_descriptors();
  }
  locks_ = RecordLocks();
  control_ = ControlMapping();  // so that no other thread takes it for another library's
  machines.joined.fetch_sub(1);
}

Status MachineFile::check_process() const {
  if (is_forked_child(fork_generation_)) {
    return Status(NRT_FAILURE,
                  "this process is in state CHILD: a forked child can't use the "
                  "machine of its parent");
  }
  return ok_status();
}

Status MachineFile::join(const Context& context, const InstanceProfile& profile,
                         const AttachOptions& options) {
  fork_generation_ = process_machines().generation;
  poison_ = context.settings.flag(Setting::kEmuPoison);
  ONRT_RETURN_IF_ERROR(crash_.set(context.settings.text(Setting::kCrashPoint)));
  ONRT_RETURN_IF_ERROR(open_files());
  // The machine lock is held from here; closing the file on failure drops it.
  ONRT_CRASH_POINT(crash_, attach_locked);
  ONRT_ASSIGN_OR_RETURN(const BackingLimit backing, backing_limit(context, folder_.get()));
  committed_limit_ = backing.bytes;
  ONRT_ASSIGN_OR_RETURN(UniqueFd control,
                        open_machine_file(folder_.get(), "control", O_RDWR | O_CREAT, sharing_));
  const bool in_use = locks_.holder(kSlotLockBytes, kMaxProcesses).has_value();
  ONRT_ASSIGN_OR_RETURN(
      control_,
      ControlMapping::open(std::move(control),
                           {profile, committed_limit_, place_.directory, in_use}, crash_));
  ONRT_RETURN_IF_ERROR(adopt_profile(profile));
  stack_files_.resize(
      static_cast<size_t>(profile_.info.device_count * profile_.info.hbm_per_device));
  control_->journal.operation = static_cast<uint32_t>(JournalOperation::kAttach);
  sweep();
  ONRT_RETURN_IF_ERROR(agree_on_limit(context));
  ONRT_RETURN_IF_ERROR(take_slot(context, options));
  process_machines().joined.fetch_add(1);
  ONRT_CRASH_POINT(crash_, attach_done);
  end();
  return ok_status();
}

// Who comes first decides, with the space that is free now; later ones follow unless their own
// setting says otherwise.
Status MachineFile::agree_on_limit(const Context& context) {
  ONRT_ASSIGN_OR_RETURN(const BackingLimit backing, backing_limit(context, folder_.get()));
  committed_limit_ = backing.bytes;
  if (!any_slot_in_use()) {
    store(control_->header.committed_limit, backing.bytes);
  } else if (!backing.chosen) {
    committed_limit_ = load(control_->header.committed_limit);
  }
  return ok_status();
}

Status MachineFile::open_files() {
  // A machine may be removed at any moment before its lock is ours: then look again. What is wrong
  // for good fails the same way a hundred times, within milliseconds.
  Status failure(NRT_FAILURE, "the machine's folder is removed again and again");
  for (int attempt = 0; attempt < 100; ++attempt) {
    auto folder = make_machine_folder(place_, sharing_);
    if (!folder.ok()) {
      failure = std::move(folder).status();
      continue;
    }
    folder_ = std::move(folder).value();
    ONRT_CRASH_POINT(crash_, create_directory_made);
    ONRT_RETURN_IF_ERROR(check_no_other_library());
    auto locks = open_machine_file(folder_.get(), "locks", O_RDWR | O_CREAT, sharing_);
    if (!locks.ok()) {
      failure = std::move(locks).status();
      continue;
    }
    ONRT_CRASH_POINT(crash_, create_locks_made);
    locks_ = RecordLocks(std::move(locks).value());
    ONRT_RETURN_IF_ERROR(locks_.lock(kMachineLockByte, kLockTimeout));
    ONRT_ASSIGN_OR_RETURN(const bool in_place, still_in_place());
    if (in_place) {
      return ok_status();
    }
    locks_ = RecordLocks();
  }
  return failure;
}

// Record locks are the process', not the library's: a second copy of this library in one process
// (dlmopen, another path) would find every lock free, and drop the first one's by closing the file.
Status MachineFile::check_no_other_library() const {
  const UniqueFd control =
      open_file_at(folder_.get(), "control", O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  ControlHeader header{};
  struct stat status{};
  if (!control.valid() || ::fstat(control.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      ::pread(control.get(), &header, sizeof(header), 0) != sizeof(header) ||
      !check_header(header, static_cast<uint64_t>(status.st_size)).ok()) {
    return ok_status();  // What is wrong with it is found when it is opened for use.
  }
  const ProcessIdentity self = own_identity();
  for (size_t slot = 0; slot < std::min<size_t>(header.slot_high_water, kMaxProcesses); ++slot) {
    SlotIdentity record{};
    const size_t offset = offsetof(ControlFile, processes) + slot * sizeof(ProcessRecord);
    if (::pread(control.get(), &record, sizeof(record), static_cast<off_t>(offset)) ==
            sizeof(record) &&
        record.state != static_cast<uint32_t>(SlotState::kFree) && record.pid == self.pid &&
        record.start_time == self.start_time && record.pid_namespace == self.pid_namespace &&
        mappings_of(self.pid, control.get()) > 0) {
      return Status(NRT_RESOURCE,
                    format("another copy of libnrt.so.1 in this process (pid {}) uses the machine: "
                           "load one only (two paths, a copied file or dlmopen() give two)",
                           self.pid));
    }
  }
  return ok_status();
}

Result<bool> MachineFile::still_in_place() {
  struct stat opened{};
  struct stat named{};
  if (::fstat(locks_.fd(), &opened) != 0) {
    return Status(NRT_FAILURE, format("machine file locks: {}", std::strerror(errno)));
  }
  locks_inode_ = inode_of(opened);
  return ::stat((place_.directory + "/locks").c_str(), &named) == 0 &&
         inode_of(opened) == inode_of(named);
}

Status MachineFile::adopt_profile(const InstanceProfile& wanted) {
  auto found = load_profile(control_->profile, control_->devices);
  if (found.ok() && same_profile(*found, wanted)) {
    profile_ = std::move(found).value();
    profile_.info.name = place_.name;
    return ok_status();
  }
  if (!found.ok()) {
    return std::move(found).status();
  }
  profile_ = wanted;
  const bool in_use = locks_.holder(kSlotLockBytes, kMaxProcesses).has_value();
  if (in_use || found->info.instance_type != wanted.info.instance_type) {
    return Status(NRT_FAILURE,
                  format("machine '{}' is {} {}, wanted {}: choose another OPENNRT_MACHINE, or "
                         "remove it with opennrt-machine rm {}",
                         place_.name, in_use ? "in use as" : "a", found->info.instance_type,
                         wanted.info.instance_type, place_.name));
  }
  // The same type by name, described anew (OPENNRT_MACHINE_FILE was changed), and nobody there.
  ONRT_RETURN_IF_ERROR(
      control_.create({wanted, committed_limit_, place_.directory, false}, crash_));
  profile_.info.name = place_.name;
  return ok_status();
}

Status MachineFile::take_slot(const Context& context, const AttachOptions& options) {
  for (int slot = 0; slot < kMaxProcesses; ++slot) {
    if (static_cast<uint32_t>(slot) < slots() &&
        load(control_->processes[slot].state) != static_cast<uint32_t>(SlotState::kFree)) {
      continue;
    }
    if (!locks_.try_lock(kSlotLockBytes + slot, 1)) {
      continue;
    }
    ONRT_CRASH_POINT(crash_, attach_slot_locked);
    if (static_cast<uint32_t>(slot) >= slots()) {
      ONRT_RETURN_IF_ERROR(
          control_.reserve(&control_->processes[slot], offsetof(ProcessRecord, models)));
      store(control_->header.slot_high_water, static_cast<uint32_t>(slot) + 1);
    }
    fill_slot(slot, context, options);
    ONRT_CRASH_POINT(crash_, attach_slot_filled);
    publish(control_->processes[slot].state, static_cast<uint32_t>(SlotState::kInUse));
    slot_ = slot;
    return ok_status();
  }
  return Status(NRT_RESOURCE, format("machine '{}' is used by {} processes, that is all it allows",
                                     place_.name, kMaxProcesses));
}

void MachineFile::fill_slot(int slot, const Context& context, const AttachOptions& options) {
  ProcessRecord& record = control_->processes[slot];
  store(record.sequence, load(record.sequence) | 1u);
  std::atomic_thread_fence(std::memory_order_release);
  const ProcessIdentity self = own_identity();
  record.pid = self.pid;
  record.start_time = self.start_time;
  record.pid_namespace = self.pid_namespace;
  record.logical_core_size = static_cast<uint32_t>(options.logical_core_size);
  store(record.committed_bytes, 0);
  store_text(record.command, sizeof(record.command), self.command);
  const std::string_view tag = context.settings.text(Setting::kProcessTag);
  store_text(record.tag, sizeof(record.tag),
             tag.empty() ? std::string_view(format("{}", self.pid)) : tag);
  store_text(record.runtime_version, sizeof(record.runtime_version), options.runtime_version);
  std::memset(record.host_bytes, 0, sizeof(record.host_bytes));
  store(record.model_high_water, 0);
  store(record.models_not_listed, 0);
  add(record.generation, 1);
  std::atomic_thread_fence(std::memory_order_release);
  store(record.sequence, load(record.sequence) + 1);
}

void MachineFile::detach() {
  const MutexLock lock(mutex_);
  if (!begin(JournalOperation::kDetach).ok()) {
    return;  // The lock is stuck or the machine was removed: whoever is next reclaims this slot.
  }
  ONRT_CRASH_POINT(crash_, detach_begun);
  reclaim(slot_);
  ONRT_CRASH_POINT(crash_, detach_cleared);
  remove_unused_files();
  ONRT_CRASH_POINT(crash_, detach_done);
  end();
}

Status MachineFile::check_lock_file() const {
  struct stat status{};
  if (::fstat(locks_.fd(), &status) == 0 && inode_of(status) == locks_inode_) {
    return ok_status();
  }
  return Status(NRT_FAILURE,
                format("machine '{}': its lock file (descriptor {}) was closed in this process; a "
                       "program that closes descriptors it did not open must do so before "
                       "nrt_init()",
                       place_.name, locks_.fd()));
}

void MachineFile::abandon_descriptors() {
  locks_.abandon();
  static_cast<void>(folder_.release());
  control_.abandon_descriptor();
  for (UniqueFd& file : stack_files_) {
    static_cast<void>(file.release());
  }
}

// Closing any descriptor of the lock file, e.g. after copying it, drops all locks of the process.
Status MachineFile::take_locks_again() {
  if (!locks_.try_lock(kSlotLockBytes + slot_, 1)) {
    return Status(NRT_FAILURE, format("machine '{}': this process' locks were dropped by closing "
                                      "its lock file, and another process took its slot",
                                      place_.name));
  }
  for (int core = 0; core < physical_cores();) {
    int end = core;
    while (end < physical_cores() && owns(end)) {
      ++end;
    }
    if (end > core && !locks_.try_lock(kCoreLockBytes + core, end - core)) {
      return Status(NRT_FAILURE, format("machine '{}': this process' locks were dropped by closing "
                                        "its lock file, and another process took its cores",
                                        place_.name));
    }
    core = std::max(end, core + 1);
  }
  return ok_status();
}

Status MachineFile::begin(JournalOperation operation) {
  ONRT_RETURN_IF_ERROR(check_lock_file());
  ONRT_RETURN_IF_ERROR(locks_.lock(kMachineLockByte, kLockTimeout));
  struct stat status{};
  if (::fstat(locks_.fd(), &status) != 0 || status.st_nlink == 0) {
    locks_.unlock(kMachineLockByte, 1);
    return Status(NRT_FAILURE, format("machine '{}' was removed while in use", place_.name));
  }
  if (Status kept = take_locks_again(); !kept.ok()) {
    locks_.unlock(kMachineLockByte, 1);
    return kept;
  }
  JournalRecord& journal = control_->journal;
  if (load(journal.operation) != static_cast<uint32_t>(JournalOperation::kIdle)) {
    add(journal.repairs, 1);
    sweep();
  }
  store(journal.slot, static_cast<uint32_t>(slot_));
  publish(journal.operation, static_cast<uint32_t>(operation));
  return ok_status();
}

void MachineFile::end() {
  publish(control_->journal.operation, static_cast<uint32_t>(JournalOperation::kIdle));
  locks_.unlock(kMachineLockByte, 1);
}

uint32_t MachineFile::slots() const {
  return std::min<uint32_t>(load(control_->header.slot_high_water), kMaxProcesses);
}

uint32_t MachineFile::entries(int stack) const {
  return std::min<uint32_t>(load(control_->stacks[stack].extent_high_water), kMaxExtentsPerStack);
}

bool MachineFile::alive(int slot) const {
  return slot == slot_ || locks_.holder(kSlotLockBytes + slot, 1).has_value() ||
         still_maps(control_->processes[slot]);
}

// A process that lost its locks without ending is known by its identity and its mapping of the
// control file (ours is one more, should it be another library of this process).
bool MachineFile::still_maps(const ProcessRecord& record) const {
  const int pid = load(record.pid);
  if (pid <= 0 || load(record.pid_namespace) != own_pid_namespace()) {
    return false;
  }
  const auto status = process_status(pid);
  return status && status->state != 'Z' && status->state != 'X' &&
         status->start_time == load(record.start_time) &&
         mappings_of(pid, control_.fd()) > (pid == ::getpid() ? 1 : 0);
}

bool MachineFile::slot_alive(int slot) {
  const MutexLock lock(mutex_);
  return alive(slot);
}

bool MachineFile::any_slot_in_use() const {
  for (uint32_t slot = 0; slot < slots(); ++slot) {
    if (load(control_->processes[slot].state) != static_cast<uint32_t>(SlotState::kFree)) {
      return true;
    }
  }
  return false;
}

void MachineFile::sweep() {
  for (uint32_t slot = 0; slot < slots(); ++slot) {
    const bool used =
        load(control_->processes[slot].state) != static_cast<uint32_t>(SlotState::kFree);
    if (used && !alive(static_cast<int>(slot))) {
      reclaim(static_cast<int>(slot));
    }
  }
  remove_unused_files();
}

void MachineFile::reclaim(int slot) {
  ProcessRecord& record = control_->processes[slot];
  publish(record.state, static_cast<uint32_t>(SlotState::kReclaiming));
  ONRT_CRASH_POINT(crash_, reclaim_marked);
  for (int core = 0; core < physical_cores(); ++core) {
    if (load(control_->cores[core].owner) == static_cast<uint32_t>(slot) + 1) {
      clear_core(core);
      ONRT_CRASH_POINT(crash_, reclaim_core);
      publish(control_->cores[core].owner, 0);
    }
  }
  reclaim_extents(slot);
  ONRT_CRASH_POINT(crash_, reclaim_extents);
  store(record.committed_bytes, 0);
  store(record.sequence, (load(record.sequence) | 1u));
  std::atomic_thread_fence(std::memory_order_release);
  std::memset(record.command, 0, sizeof(record.command));
  std::memset(record.tag, 0, sizeof(record.tag));
  store(record.model_high_water, 0);
  std::atomic_thread_fence(std::memory_order_release);
  store(record.sequence, load(record.sequence) + 1);
  ONRT_CRASH_POINT(crash_, reclaim_cleared);
  publish(record.state, static_cast<uint32_t>(SlotState::kFree));
}

void MachineFile::clear_core(int core) {
  CoreRecord& record = control_->cores[core];
  // An execution that was killed counts up to its start: nobody knows when it ended.
  const uint64_t busy = load(record.busy);
  if (is_busy(busy)) {
    store(record.busy, busy_sum(busy, load(record.busy_since_ns)));
  }
  store(record.busy_since_ns, 0);
  store(record.busy_before_owner, load(record.busy));
  for (int i = 0; i < kLayoutCategories; ++i) {
    store(record.bytes[i], 0);
    store(record.peak[i], 0);
    store(record.last_change[i], 0);
  }
  fold_statistics(core);
  SyncRecord& sync = control_->sync[core];
  for (uint32_t& semaphore : sync.semaphores) {
    store(semaphore, 0);
  }
  for (uint32_t& event : sync.events) {
    store(event, 0);
  }
}

// A crash in between loses what was not added yet; it counts nothing twice.
void MachineFile::fold_statistics(int core) {
  CoreStatisticsRecord& record = control_->statistics[core];
  for (size_t i = 0; i < kCoreCounters; ++i) {
    const uint64_t value = load(record.live.counters[i]);
    store(record.live.counters[i], 0);
    store(record.earlier[i], load(record.earlier[i]) + value);
  }
  store(record.live.running_model, 0);
  store(record.live.busy_ns, 0);
  for (LatencyHistogram* histogram : {&record.live.total_latency, &record.live.device_latency}) {
    for (uint32_t& bucket : histogram->buckets) {
      store(bucket, 0);
    }
  }
}

void MachineFile::remove_unused_files() {
  if (any_slot_in_use()) {
    return;
  }
  const int stacks = profile_.info.device_count * profile_.info.hbm_per_device;
  for (int stack = 0; stack < stacks; ++stack) {
    if (load(control_->stacks[stack].extent_high_water) != 0) {
      ::unlinkat(folder_.get(), stack_file_name(stack).c_str(), 0);
      ONRT_CRASH_POINT(crash_, reclaim_files);
      store(control_->stacks[stack].extent_high_water, 0);
    }
  }
}

Result<ModelRecord*> MachineFile::free_model_entry() {
  ProcessRecord& record = process();
  if (!free_models_.empty()) {
    ModelRecord* const entry = &record.models[free_models_.back()];
    free_models_.pop_back();
    return entry;
  }
  constexpr uint32_t kStep = 32;
  const uint32_t used = load(record.model_high_water);
  if (used >= kMaxModels) {
    return Status(NRT_RESOURCE, "the list of models is full");
  }
  if (used % kStep == 0) {
    ONRT_RETURN_IF_ERROR(control_.reserve(&record.models[used], kStep * sizeof(ModelRecord)));
    std::memset(&record.models[used], 0, kStep * sizeof(ModelRecord));
  }
  publish(record.model_high_water, used + 1);
  return &record.models[used];
}

void MachineFile::list_model(uint64_t id, int core, const ProgramImage& image) {
  const MutexLock lock(mutex_);
  const auto entry = free_model_entry();
  if (!entry.ok()) {
    add(process().models_not_listed, 1);
    return;
  }
  ModelRecord& model = **entry;
  store(model.sequence, load(model.sequence) | 1U);
  std::atomic_thread_fence(std::memory_order_release);
  model.core = core;
  model.model = image.model;
  std::memcpy(model.uuid, image.uuid.data(), sizeof(model.uuid));
  model.code_bytes = image.code_bytes;
  model.constants_bytes = image.constants_bytes;
  store_text(model.name, sizeof(model.name), image.name);
  store(model.id, id);
  std::atomic_thread_fence(std::memory_order_release);
  store(model.sequence, load(model.sequence) + 1);
}

void MachineFile::unlist_model(uint64_t id) {
  const MutexLock lock(mutex_);
  ProcessRecord& record = process();
  const uint32_t used = std::min<uint32_t>(load(record.model_high_water), kMaxModels);
  for (uint32_t i = 0; i < used; ++i) {
    if (load(record.models[i].id) == id) {
      store(record.models[i].id, 0);
      free_models_.push_back(static_cast<int>(i));
      return;
    }
  }
  if (const uint32_t more = load(record.models_not_listed); more != 0) {
    store(record.models_not_listed, more - 1);
  }
}

}  // namespace onrt::emu
