// SPDX-License-Identifier: Apache-2.0
// This process' membership of an emulated machine: its slot, its cores, its extents. One object per
// process and machine, shared by the sessions of the process.
//
// All changes happen under the machine lock and are journaled: whoever gets the lock after a crash
// repairs. Cores here are physical ones, counted over the machine; a stack is counted over the
// machine, too (device * hbm_per_device + stack).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulator/fork_watch.h"
#include "emulator/machine_control.h"
#include "emulator/machine_place.h"
#include "emulator/record_locks.h"
#include "runtime/base/mutex.h"
#include "runtime/driver/driver.h"

namespace onrt::emu {

struct AttachOptions {
  int logical_core_size = 1;
  std::string runtime_version;
};

// An extent that this process owns, mapped.
class Extent {
 public:
  Extent(int stack, int entry, uint64_t offset, uint64_t size, std::byte* data);
  ~Extent();
  Extent(const Extent&) = delete;
  Extent& operator=(const Extent&) = delete;

  int stack() const { return stack_; }
  int entry() const { return entry_; }
  uint64_t offset() const { return offset_; }
  uint64_t size() const { return size_; }
  std::byte* data() const { return data_; }
  bool freed() const { return freed_.load(std::memory_order_acquire); }
  bool contains(uint64_t offset, uint64_t size) const {
    return offset >= offset_ && size <= size_ && offset - offset_ <= size_ - size;
  }

 private:
  friend class MachineFile;
  size_t steps() const { return (size_ + kCommitStep - 1) / kCommitStep; }

  const int stack_;
  const int entry_;
  const uint64_t offset_;
  const uint64_t size_;
  std::byte* const data_;
  const uint64_t fork_generation_;
  std::atomic<bool> freed_{false};
  std::atomic<size_t> uncommitted_steps_;
  std::unique_ptr<std::atomic<bool>[]> committed_;  // by step
};

// Thread-safe.
class MachineFile {
 public:
  // Joins the machine at `place`, making it when it doesn't exist, repairing it when needed.
  // Errors: NRT_FAILURE (untrusted or damaged files, another instance type, forked child),
  // NRT_RESOURCE (no space, no process slot, another copy of the library in this process uses the
  // machine), NRT_TIMEOUT (the lock's holder is stopped).
  static Result<std::shared_ptr<MachineFile>> attach(const Context& context,
                                                     const MachinePlace& place,
                                                     const InstanceProfile& profile,
                                                     const AttachOptions& options);
  ~MachineFile();
  MachineFile(const MachineFile&) = delete;
  MachineFile& operator=(const MachineFile&) = delete;

  const InstanceProfile& profile() const { return profile_; }
  const MachinePlace& place() const { return place_; }
  int slot() const { return slot_; }
  int physical_cores() const {
    return profile_.info.device_count * profile_.info.physical_cores_per_device;
  }
  // NRT_FAILURE in a forked child, where nothing of this object may be used.
  Status check_process() const;

  // True while a process holds the slot; `slot` is within kMaxProcesses.
  bool slot_alive(int slot) ONRT_EXCLUDES(mutex_);

  // ---- cores
  // Claims `count` consecutive cores from `start`, or the first free run that starts at a multiple
  // of `step` when start is negative. NRT_RESOURCE names the owners.
  Result<int> claim(int start, int count, int step);
  // Cores must be claimed by this process.
  Status release(int start, int count);
  Status reset(int core);
  // Owner's slot by core, -1 when free. Sweeps first.
  Result<std::vector<CoreOwner>> owners();
  bool owns(int core) const;
  CoreRecord& core(int core) { return control_->cores[core]; }
  CoreStatistics& statistics(int core) { return control_->statistics[core].live; }
  ProcessRecord& process() { return control_->processes[slot_]; }
  SyncRecord& sync(int core) { return control_->sync[core]; }
  DeviceCounterRecord& counters(int device) { return control_->counters[device]; }

  // ---- models, for readers
  uint64_t new_program_id() { return last_program_.fetch_add(1) + 1; }  // unique in this process
  // Not shown when the list is full.
  void list_model(uint64_t id, int core, const ProgramImage& image);
  void unlist_model(uint64_t id);

  // ---- memory
  Result<std::shared_ptr<Extent>> allocate(int stack, uint64_t size, uint64_t alignment);
  Status free(const std::shared_ptr<Extent>& extent);
  Result<HbmUsage> usage(int stack);
  // Backs [offset, offset + size) of the extent's stack with pages.
  Status commit(Extent& extent, uint64_t offset, uint64_t size);
  // A new descriptor of the stack's file.
  Result<int> share(int stack);

 private:
  class Transaction;
  struct Run {
    uint64_t offset;
    uint64_t end;
  };

  MachineFile(MachinePlace place, const Sharing& sharing) : place_(place), sharing_(sharing) {}

  // Steps of attach().
  static Result<std::shared_ptr<MachineFile>> join_new(
      const Context& context, const MachinePlace& place, const Sharing& sharing,
      const InstanceProfile& profile, const AttachOptions& options, ProcessMachines& machines)
      ONRT_REQUIRES(machines.mutex);
  Status open_files() ONRT_REQUIRES(mutex_);
  Status check_no_other_library() const;
  Result<bool> still_in_place();
  Status agree_on_limit(const Context& context) ONRT_REQUIRES(mutex_);
  Status join(const Context& context, const InstanceProfile& profile, const AttachOptions& options)
      ONRT_REQUIRES(mutex_);
  Status adopt_profile(const InstanceProfile& wanted) ONRT_REQUIRES(mutex_);
  Status take_slot(const Context& context, const AttachOptions& options) ONRT_REQUIRES(mutex_);
  void fill_slot(int slot, const Context& context, const AttachOptions& options);
  void detach() ONRT_EXCLUDES(mutex_);
  Status check_lock_file() const;
  Status take_locks_again() ONRT_REQUIRES(mutex_);
  void abandon_descriptors() ONRT_NO_THREAD_SAFETY_ANALYSIS;

  // Under the machine lock.
  Status begin(JournalOperation operation) ONRT_REQUIRES(mutex_);
  void end() ONRT_REQUIRES(mutex_);

  uint32_t slots() const;
  bool alive(int slot) const;
  bool still_maps(const ProcessRecord& record) const;
  bool any_slot_in_use() const;
  void sweep() ONRT_REQUIRES(mutex_);
  void reclaim(int slot) ONRT_REQUIRES(mutex_);
  void reclaim_extents(int slot) ONRT_REQUIRES(mutex_);
  void remove_unused_files() ONRT_REQUIRES(mutex_);
  void clear_core(int core);
  void fold_statistics(int core);
  Result<ModelRecord*> free_model_entry() ONRT_REQUIRES(mutex_);
  uint32_t entries(int stack) const;

  Result<int> claim_locked(int start, int count, int step) ONRT_REQUIRES(mutex_);
  int longest_free_run(int step) const;
  Status busy(int start, int count, int step) const;

  Status check_stack(int stack) const;
  Result<std::vector<Run>> used_runs(int stack) const;
  Result<std::shared_ptr<Extent>> allocate_locked(int stack, uint64_t size, uint64_t alignment)
      ONRT_REQUIRES(mutex_);
  Result<int> free_entry(int stack) ONRT_REQUIRES(mutex_);
  void free_record(int stack, int entry) ONRT_REQUIRES(mutex_);
  Result<int> stack_file(int stack) ONRT_REQUIRES(mutex_);
  std::string stack_file_name(int stack) const;
  std::string stack_name(int stack) const;
  uint64_t committed_bytes() const;
  Status back(Extent& extent, uint64_t first, uint64_t last) ONRT_REQUIRES(mutex_);

  const MachinePlace place_;
  const Sharing sharing_;
  InstanceProfile profile_;
  uint64_t fork_generation_ = 0;
  bool poison_ = false;
  uint64_t committed_limit_ = 0;
  int slot_ = -1;
  mutable CrashPlan crash_;
  UniqueFd folder_;
  RecordLocks locks_;
  std::pair<uint64_t, uint64_t> locks_inode_;
  std::atomic<uint64_t> last_program_{0};
  ControlMapping control_;

  Mutex mutex_;
  std::vector<UniqueFd> stack_files_ ONRT_GUARDED_BY(mutex_);
  std::vector<int> free_models_ ONRT_GUARDED_BY(mutex_);  // unused entries below the high water
};

}  // namespace onrt::emu
