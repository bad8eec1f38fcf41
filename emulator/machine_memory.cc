// SPDX-License-Identifier: Apache-2.0
// HBM extents of a machine: who owns which range of which stack, and its pages on the host.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "emulator/fork_watch.h"
#include "emulator/machine_file.h"
#include "emulator/machine_transaction.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::emu {
namespace {

constexpr int kPoison = 0xA5;

constexpr uint64_t round_up(uint64_t value, uint64_t grain) {
  return (value + grain - 1) / grain * grain;
}

uint64_t free_of_file_system(int folder) {
  struct statvfs status{};
  return ::fstatvfs(folder, &status) == 0 ? static_cast<uint64_t>(status.f_bavail) * status.f_frsize
                                          : 0;
}

}  // namespace

Extent::Extent(int stack, int entry, uint64_t offset, uint64_t size, std::byte* data)
    : stack_(stack),
      entry_(entry),
      offset_(offset),
      size_(size),
      data_(data),
      fork_generation_(process_machines().generation),
      uncommitted_steps_(steps()),
      committed_(std::make_unique<std::atomic<bool>[]>(steps())) {}

Extent::~Extent() {
  // A forked child does not have the mapping; something else may be at its place.
  if (!is_forked_child(fork_generation_)) {
    ::munmap(data_, size_);
  }
}

std::string MachineFile::stack_file_name(int stack) const {
  return format("nd{}.hbm{}", stack / profile_.info.hbm_per_device,
                stack % profile_.info.hbm_per_device);
}

std::string MachineFile::stack_name(int stack) const {
  return format("ND {} HBM {}", stack / profile_.info.hbm_per_device,
                stack % profile_.info.hbm_per_device);
}

Status MachineFile::check_stack(int stack) const {
  ONRT_RETURN_IF_ERROR(check_process());
  const int stacks = profile_.info.device_count * profile_.info.hbm_per_device;
  if (stack < 0 || stack >= stacks) {
    return Status(NRT_INVALID, format("HBM {}: the machine has {}", stack, stacks));
  }
  return ok_status();
}

// Extents in order of their offset. Checks every one: the table is untrusted.
Result<std::vector<MachineFile::Run>> MachineFile::used_runs(int stack) const {
  std::vector<Run> runs;
  for (uint32_t i = 0; i < entries(stack); ++i) {
    const ExtentRecord& record = control_->extents[stack][i];
    if (load(record.state) == static_cast<uint32_t>(ExtentState::kFree)) {
      continue;
    }
    const uint64_t offset = load(record.offset);
    const uint64_t size = load(record.size);
    if (offset % kHbmGrain != 0 || size % kHbmGrain != 0 || size == 0 ||
        offset < kReservedHbmBytes || size > profile_.info.hbm_bytes ||
        offset > profile_.info.hbm_bytes - size) {
      return Status(NRT_FAILURE, format("the machine's control file is damaged: extent {} of {} is "
                                        "outside the stack; remove the machine with "
                                        "opennrt-machine rm",
                                        i, stack_name(stack)));
    }
    runs.push_back({offset, offset + size});
  }
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.offset < b.offset; });
  return runs;
}

Result<HbmUsage> MachineFile::usage(int stack) {
  ONRT_RETURN_IF_ERROR(check_stack(stack));
  const MutexLock lock(mutex_);
  ONRT_RETURN_IF_ERROR(begin(JournalOperation::kReclaim));
  const Transaction transaction(*this);
  sweep();
  ONRT_ASSIGN_OR_RETURN(const std::vector<Run> runs, used_runs(stack));
  HbmUsage usage;
  usage.limit = profile_.info.hbm_bytes - kReservedHbmBytes;
  uint64_t end = kReservedHbmBytes;
  for (const Run& run : runs) {
    usage.used += run.end - run.offset;
    usage.largest = std::max(usage.largest, run.offset > end ? run.offset - end : 0);
    end = std::max(end, run.end);
  }
  usage.largest = std::max(usage.largest, profile_.info.hbm_bytes - end);
  return usage;
}

Result<std::shared_ptr<Extent>> MachineFile::allocate(int stack, uint64_t size,
                                                      uint64_t alignment) {
  ONRT_RETURN_IF_ERROR(check_stack(stack));
  if (size == 0 || size > profile_.info.hbm_bytes) {
    return Status(size == 0 ? NRT_INVALID : NRT_RESOURCE,
                  format("{} bytes of {} were asked for, it has {}", size, stack_name(stack),
                         profile_.info.hbm_bytes - kReservedHbmBytes));
  }
  if (!std::has_single_bit(alignment) || alignment > profile_.info.hbm_bytes) {
    return Status(NRT_INVALID, format("alignment {} of an HBM extent is not a power of two within "
                                      "the stack",
                                      alignment));
  }
  const MutexLock lock(mutex_);
  ONRT_RETURN_IF_ERROR(begin(JournalOperation::kAllocate));
  const Transaction transaction(*this);
  const uint64_t rounded = round_up(size, kHbmGrain);
  auto extent = allocate_locked(stack, rounded, std::max(alignment, kHbmGrain));
  if (!extent.ok() && extent.status().code() == NRT_RESOURCE) {
    sweep();
    extent = allocate_locked(stack, rounded, std::max(alignment, kHbmGrain));
  }
  return extent;
}

Result<std::shared_ptr<Extent>> MachineFile::allocate_locked(int stack, uint64_t size,
                                                             uint64_t alignment) {
  ONRT_ASSIGN_OR_RETURN(const std::vector<Run> runs, used_runs(stack));
  uint64_t offset = round_up(kReservedHbmBytes, alignment);
  uint64_t used = 0;
  for (const Run& run : runs) {
    used += run.end - run.offset;
    if (run.end > offset && offset + size > run.offset) {
      offset = round_up(run.end, alignment);
    }
  }
  if (offset > profile_.info.hbm_bytes || size > profile_.info.hbm_bytes - offset) {
    const uint64_t limit = profile_.info.hbm_bytes - kReservedHbmBytes;
    return Status(NRT_RESOURCE,
                  format("{} has no room for {} bytes: {} of {} bytes are in use by extents",
                         stack_name(stack), size, used, limit));
  }
  ONRT_ASSIGN_OR_RETURN(const int fd, stack_file(stack));
  ONRT_ASSIGN_OR_RETURN(const int entry, free_entry(stack));
  ONRT_CRASH_POINT(crash_, allocate_entry_reserved);
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                      static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    return Status(NRT_RESOURCE, format("mapping {} bytes of {}: {}", size, stack_name(stack),
                                       std::strerror(errno)));
  }
  ::madvise(data, size, MADV_DONTDUMP);
  ::madvise(data, size, MADV_DONTFORK);
  ExtentRecord& record = control_->extents[stack][entry];
  store(record.owner, static_cast<uint32_t>(slot_));
  store(record.offset, offset);
  store(record.size, size);
  store(record.committed_bytes, 0);
  ONRT_CRASH_POINT(crash_, allocate_entry_filled);
  publish(record.state, static_cast<uint32_t>(ExtentState::kOwned));
  ONRT_CRASH_POINT(crash_, allocate_owned);
  auto extent = std::make_shared<Extent>(stack, entry, offset, size, static_cast<std::byte*>(data));
  ONRT_CRASH_POINT(crash_, allocate_done);
  return extent;
}

Result<int> MachineFile::free_entry(int stack) {
  const uint32_t high_water = entries(stack);
  for (uint32_t i = 0; i < high_water; ++i) {
    if (load(control_->extents[stack][i].state) == static_cast<uint32_t>(ExtentState::kFree)) {
      return static_cast<int>(i);
    }
  }
  if (high_water == kMaxExtentsPerStack) {
    return Status(NRT_RESOURCE, format("{} is divided into {} extents, that is all it allows",
                                       stack_name(stack), kMaxExtentsPerStack));
  }
  ExtentRecord& record = control_->extents[stack][high_water];
  ONRT_RETURN_IF_ERROR(control_.reserve(&record, sizeof(record)));
  store(record.state, static_cast<uint32_t>(ExtentState::kFree));
  store(control_->stacks[stack].extent_high_water, high_water + 1);
  return static_cast<int>(high_water);
}

Result<int> MachineFile::stack_file(int stack) {
  UniqueFd& file = stack_files_[static_cast<size_t>(stack)];
  if (file.valid()) {
    return file.get();
  }
  // Before the file exists: so that it is found and removed after a crash.
  ONRT_RETURN_IF_ERROR(free_entry(stack).status());
  ONRT_ASSIGN_OR_RETURN(UniqueFd fd, open_machine_file(folder_.get(), stack_file_name(stack),
                                                       O_RDWR | O_CREAT, sharing_));
  ONRT_RETURN_IF_ERROR(
      check_file_size_limit(profile_.info.hbm_bytes,
                            format("the file of {} in {}", stack_name(stack), place_.directory)));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 ||
      (static_cast<uint64_t>(status.st_size) < profile_.info.hbm_bytes &&
       ::ftruncate(fd.get(), static_cast<off_t>(profile_.info.hbm_bytes)) != 0)) {
    return Status(NRT_RESOURCE, format("making the file of {} ({} bytes): {}", stack_name(stack),
                                       profile_.info.hbm_bytes, std::strerror(errno)));
  }
  file = std::move(fd);
  return file.get();
}

Result<int> MachineFile::share(int stack) {
  ONRT_RETURN_IF_ERROR(check_stack(stack));
  const MutexLock lock(mutex_);
  ONRT_ASSIGN_OR_RETURN(const int fd, stack_file(stack));
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (copy < 0) {
    return Status(NRT_RESOURCE, format("sharing {}: {}", stack_name(stack), std::strerror(errno)));
  }
  return copy;
}

Status MachineFile::free(const std::shared_ptr<Extent>& extent) {
  ONRT_RETURN_IF_ERROR(check_process());
  const MutexLock lock(mutex_);
  ONRT_RETURN_IF_ERROR(begin(JournalOperation::kFree));
  const Transaction transaction(*this);
  extent->freed_.store(true, std::memory_order_release);
  free_record(extent->stack(), extent->entry());
  return ok_status();
}

// Scrubs the range (its next owner reads zeros) and gives the entry back.
void MachineFile::free_record(int stack, int entry) {
  ExtentRecord& record = control_->extents[stack][entry];
  publish(record.state, static_cast<uint32_t>(ExtentState::kScrubbing));
  ONRT_CRASH_POINT(crash_, free_scrubbing);
  const uint64_t offset = load(record.offset);
  const uint64_t size = load(record.size);
  const auto fd = stack_file(stack);
  if (fd.ok() && offset < profile_.info.hbm_bytes && size <= profile_.info.hbm_bytes) {
    ::fallocate(*fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(size));
  }
  ONRT_CRASH_POINT(crash_, free_punched);
  const uint32_t owner = load(record.owner);
  if (owner < kMaxProcesses) {
    ProcessRecord& process = control_->processes[owner];
    const uint64_t committed = load(process.committed_bytes);
    store(process.committed_bytes, committed - std::min(committed, load(record.committed_bytes)));
  }
  store(record.committed_bytes, 0);
  publish(record.state, static_cast<uint32_t>(ExtentState::kFree));
  ONRT_CRASH_POINT(crash_, free_done);
}

void MachineFile::reclaim_extents(int slot) {
  const int stacks = profile_.info.device_count * profile_.info.hbm_per_device;
  for (int stack = 0; stack < stacks; ++stack) {
    for (uint32_t i = 0; i < entries(stack); ++i) {
      const ExtentRecord& record = control_->extents[stack][i];
      if (load(record.state) != static_cast<uint32_t>(ExtentState::kFree) &&
          load(record.owner) == static_cast<uint32_t>(slot)) {
        free_record(stack, static_cast<int>(i));
      }
    }
  }
}

uint64_t MachineFile::committed_bytes() const {
  uint64_t sum = 0;
  for (uint32_t slot = 0; slot < slots(); ++slot) {
    sum += load(control_->processes[slot].committed_bytes);
  }
  return sum;
}

Status MachineFile::commit(Extent& extent, uint64_t offset, uint64_t size) {
  if (extent.uncommitted_steps_.load(std::memory_order_acquire) == 0 || size == 0) {
    return ok_status();
  }
  const uint64_t first = (offset - extent.offset_) / kCommitStep;
  const uint64_t last = (offset - extent.offset_ + size - 1) / kCommitStep;
  bool missing = false;
  for (uint64_t step = first; step <= last && !missing; ++step) {
    missing = !extent.committed_[step].load(std::memory_order_acquire);
  }
  if (!missing) {
    return ok_status();
  }
  ONRT_RETURN_IF_ERROR(check_process());
  const MutexLock lock(mutex_);
  ONRT_RETURN_IF_ERROR(begin(JournalOperation::kCommit));
  const Transaction transaction(*this);
  for (uint64_t step = first; step <= last;) {
    if (extent.committed_[step].load(std::memory_order_relaxed)) {
      ++step;
      continue;
    }
    uint64_t end = step + 1;
    while (end <= last && !extent.committed_[end].load(std::memory_order_relaxed)) {
      ++end;
    }
    ONRT_RETURN_IF_ERROR(back(extent, step, end));
    step = end;
  }
  return ok_status();
}

// Backs steps [first, last) of the extent, none of which has pages.
Status MachineFile::back(Extent& extent, uint64_t first, uint64_t last) {
  const uint64_t start = first * kCommitStep;
  const uint64_t bytes = std::min(last * kCommitStep, extent.size_) - start;
  const uint64_t before = committed_bytes();
  if (before > committed_limit_ || bytes > committed_limit_ - before) {
    return Status(NRT_RESOURCE,
                  format("backing of emulated HBM: {} bytes of {} were asked for, {} of {} bytes "
                         "are in use (OPENNRT_EMU_HBM_BACKING)",
                         bytes, stack_name(extent.stack_), before, committed_limit_));
  }
  if (extent.freed()) {
    return Status(NRT_INVALID, format("the extent at offset {} of {} was freed", extent.offset_,
                                      stack_name(extent.stack_)));
  }
  ExtentRecord& record = control_->extents[extent.stack_][extent.entry_];
  ProcessRecord& process = control_->processes[slot_];
  store(record.committed_bytes, load(record.committed_bytes) + bytes);
  store(process.committed_bytes, load(process.committed_bytes) + bytes);
  ONRT_CRASH_POINT(crash_, commit_accounted);
  ONRT_ASSIGN_OR_RETURN(const int fd, stack_file(extent.stack_));
  const auto file_offset = static_cast<off_t>(extent.offset_ + start);
  if (::fallocate(fd, FALLOC_FL_KEEP_SIZE, file_offset, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, file_offset,
                static_cast<off_t>(bytes));
    store(record.committed_bytes, load(record.committed_bytes) - bytes);
    store(process.committed_bytes, load(process.committed_bytes) - bytes);
    return Status(NRT_RESOURCE,
                  format("backing of emulated HBM: {} bytes of {}: {} ({} bytes are free in {})",
                         bytes, stack_name(extent.stack_), std::strerror(error),
                         free_of_file_system(folder_.get()), place_.directory));
  }
  ONRT_CRASH_POINT(crash_, commit_backed);
  if (poison_) {
    std::memset(extent.data_ + start, kPoison, bytes);
  }
  for (uint64_t step = first; step < last; ++step) {
    extent.committed_[step].store(true, std::memory_order_release);
  }
  extent.uncommitted_steps_.fetch_sub(last - first, std::memory_order_release);
  ONRT_CRASH_POINT(crash_, commit_done);
  return ok_status();
}

}  // namespace onrt::emu
