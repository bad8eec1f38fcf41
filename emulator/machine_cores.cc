// SPDX-License-Identifier: Apache-2.0
// Ownership of cores. The truth is the record lock on the core's byte; the control file names the
// owner, for messages and readers.
#include <algorithm>

#include "emulator/machine_file.h"
#include "emulator/machine_transaction.h"
#include "runtime/base/format.h"

namespace onrt::emu {
namespace {

constexpr size_t kLongestCommand = 80;

std::string shortened(std::string text) {
  if (text.size() > kLongestCommand) {
    text.resize(kLongestCommand - 3);
    text += "...";
  }
  return text;
}

std::string core_span(int first, int last) {
  return first == last ? format("nc{}", first) : format("nc{}-nc{}", first, last);
}

}  // namespace

Result<int> MachineFile::claim(int start, int count, int step) {
  ONRT_RETURN_IF_ERROR(check_process());
  if (count <= 0 || count > physical_cores() || start > physical_cores() - count) {
    return Status(NRT_INVALID, start < 0
                                   ? format("{} cores were asked for, the machine has {}",
                                            count / step, physical_cores() / step)
                                   : format("cores {} were asked for, the machine has {} cores",
                                            core_span(start / step, (start + count) / step - 1),
                                            physical_cores() / step));
  }
  const MutexLock lock(mutex_);
  ONRT_RETURN_IF_ERROR(begin(JournalOperation::kClaim));
  const Transaction transaction(*this);
  ONRT_CRASH_POINT(crash_, claim_locked);
  auto claimed = claim_locked(start, count, step);
  if (!claimed.ok()) {
    sweep();
    claimed = claim_locked(start, count, step);
  }
  return claimed;
}

Result<int> MachineFile::claim_locked(int start, int count, int step) {
  const int first = std::max(start, 0);
  const int last = start < 0 ? physical_cores() - count : start;
  for (int core = first; core <= last; core += step) {
    const auto is_free = [&](int c) { return load(control_->cores[c].owner) == 0; };
    bool all_free = true;
    for (int c = core; c < core + count && all_free; ++c) {
      all_free = is_free(c);
    }
    if (!all_free || !locks_.try_lock(kCoreLockBytes + core, count)) {
      continue;
    }
    if (Status room = control_.reserve(&control_->statistics[core],
                                       static_cast<size_t>(count) * sizeof(CoreStatisticsRecord));
        !room.ok()) {
      locks_.unlock(kCoreLockBytes + core, count);
      return room;
    }
    for (int c = core; c < core + count; ++c) {
      clear_core(c);
      publish(control_->cores[c].owner, static_cast<uint32_t>(slot_) + 1);
      ONRT_CRASH_POINT(crash_, claim_first_core);
    }
    ONRT_CRASH_POINT(crash_, claim_done);
    return core;
  }
  return busy(start, count, step);
}

int MachineFile::longest_free_run(int step) const {
  int longest = 0;
  int run = 0;
  for (int core = 0; core < physical_cores(); ++core) {
    run = load(control_->cores[core].owner) == 0 ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest / step;
}

Status MachineFile::busy(int start, int count, int step) const {
  const int first = std::max(start, 0) / step;
  const int last = start < 0 ? physical_cores() / step - 1 : (start + count) / step - 1;
  const auto owner_of = [&](int logical) {
    uint32_t owner = 0;
    for (int c = logical * step; c < (logical + 1) * step && owner == 0; ++c) {
      owner = load(control_->cores[c].owner);
    }
    return owner;
  };
  std::string holders;
  int available = 0;
  for (int core = first; core <= last;) {
    const uint32_t owner = owner_of(core);
    int end = core + 1;
    while (end <= last && owner_of(end) == owner) {
      ++end;
    }
    if (owner == 0) {
      available += end - core;
    } else if (owner <= kMaxProcesses) {
      const ProcessRecord& process = control_->processes[owner - 1];
      holders += format("; {} held by pid {} ({})", core_span(core, end - 1), process.pid,
                        shortened(load_text(process.command, sizeof(process.command))));
    }
    core = end;
  }
  const std::string requested =
      start < 0 ? format("{}", count / step) : format("nc{}-nc{}", first, last);
  return Status(NRT_RESOURCE,
                format("NeuronCore(s) not available - Requested:{} Available:{}{}", requested,
                       start < 0 ? longest_free_run(step) : available, holders));
}

bool MachineFile::owns(int core) const {
  return core >= 0 && core < physical_cores() &&
         load(control_->cores[core].owner) == static_cast<uint32_t>(slot_) + 1;
}

Status MachineFile::release(int start, int count) {
  ONRT_RETURN_IF_ERROR(check_process());
  const MutexLock lock(mutex_);
  for (int core = start; core < start + count; ++core) {
    if (!owns(core)) {
      return Status(NRT_INVALID, format("core {} is not held by this process", core));
    }
  }
  ONRT_RETURN_IF_ERROR(begin(JournalOperation::kRelease));
  const Transaction transaction(*this);
  for (int core = start; core < start + count; ++core) {
    clear_core(core);
    publish(control_->cores[core].owner, 0);
    ONRT_CRASH_POINT(crash_, release_first_core);
  }
  locks_.unlock(kCoreLockBytes + start, count);
  ONRT_CRASH_POINT(crash_, release_done);
  return ok_status();
}

Status MachineFile::reset(int core) {
  ONRT_RETURN_IF_ERROR(check_process());
  const MutexLock lock(mutex_);
  if (!owns(core)) {
    return Status(NRT_INVALID, format("core {} is not held by this process", core));
  }
  SyncRecord& sync = control_->sync[core];
  for (uint32_t& semaphore : sync.semaphores) {
    store(semaphore, 0);
  }
  for (uint32_t& event : sync.events) {
    store(event, 0);
  }
  return ok_status();
}

Result<std::vector<CoreOwner>> MachineFile::owners() {
  ONRT_RETURN_IF_ERROR(check_process());
  const MutexLock lock(mutex_);
  ONRT_RETURN_IF_ERROR(begin(JournalOperation::kReclaim));
  const Transaction transaction(*this);
  sweep();
  std::vector<CoreOwner> owners;
  for (int core = 0; core < physical_cores(); ++core) {
    const uint32_t owner = load(control_->cores[core].owner);
    if (owner == 0 || owner > kMaxProcesses) {
      continue;
    }
    const ProcessRecord& process = control_->processes[owner - 1];
    owners.push_back({core, process.pid, load_text(process.command, sizeof(process.command))});
  }
  return owners;
}

}  // namespace onrt::emu
