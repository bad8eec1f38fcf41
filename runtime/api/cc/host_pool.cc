// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/cc/host_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::api {
namespace {

// Large pages where the host offers them for shared memory.
constexpr uint64_t kGrain = 4096;
constexpr uint64_t kLargeGrain = 2ULL << 20;

uint64_t round_up(uint64_t value, uint64_t grain) { return (value + grain - 1) / grain * grain; }

}  // namespace

HostPool::~HostPool() {
  const MutexLock lock(mutex_);
  if (std::byte* const base = base_.load()) {
    ::munmap(base, kBytes);
  }
}

Status HostPool::create() {
  ONRT_RETURN_IF_ERROR(check_file_size_limit(kBytes, "host memory that ranks share"));
  fd_ = above_standard_streams(UniqueFd(::memfd_create("opennrt-host", MFD_CLOEXEC)));
  if (!fd_.valid() || ::ftruncate(fd_.get(), static_cast<off_t>(kBytes)) != 0) {
    fd_.reset();
    return Status(NRT_RESOURCE, format("host memory that ranks share: {}", std::strerror(errno)));
  }
  return ok_status();
}

Result<void*> HostPool::allocate(uint64_t bytes) {
  if (!exists()) {
    return Status(NRT_RESOURCE, "this communicator has no memory that ranks share (`ulimit -f`)");
  }
  if (bytes == 0 || bytes > kBytes) {
    return Status(NRT_INVALID, format("host memory that ranks share: expected 1 to {} bytes, found "
                                      "{}",
                                      kBytes, bytes));
  }
  const MutexLock lock(mutex_);
  if (base_.load() == nullptr) {
    void* base =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_.get(), 0);
    if (base == MAP_FAILED) {
      return Status(NRT_RESOURCE, format("mapping {} of addresses: {}", format_bytes(kBytes),
                                         std::strerror(errno)));
    }
    ::madvise(base, kBytes, MADV_DONTDUMP);
    ::madvise(base, kBytes, MADV_DONTFORK);
    base_.store(static_cast<std::byte*>(base), std::memory_order_release);
  }
  const uint64_t size = round_up(bytes, kGrain);
  const uint64_t alignment = size >= kLargeGrain ? kLargeGrain : kGrain;
  uint64_t place = 0;
  for (const auto& [offset, length] : used_) {
    if (place + size <= offset) {
      break;
    }
    place = round_up(offset + length, alignment);
  }
  if (place + size > kBytes) {
    return Status(NRT_RESOURCE,
                  format("host memory that ranks share: no room for {}", format_bytes(bytes)));
  }
  used_[place] = size;
  return static_cast<void*>(base_.load() + place);
}

Status HostPool::free(void* data) {
  const MutexLock lock(mutex_);
  const auto offset = offset_of(data, 1);
  const auto found = offset ? used_.find(*offset) : used_.end();
  if (found == used_.end()) {
    return Status(NRT_INVALID, format("{} is not memory of host_allocate()", data));
  }
  ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(found->first), static_cast<off_t>(found->second));
  used_.erase(found);
  return ok_status();
}

std::optional<uint64_t> HostPool::offset_of(const void* data, uint64_t bytes) const {
  const std::byte* const base = base_.load(std::memory_order_acquire);
  const auto* const at = static_cast<const std::byte*>(data);
  if (base == nullptr || at < base || at >= base + kBytes ||
      bytes > static_cast<uint64_t>(base + kBytes - at)) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(at - base);
}

}  // namespace onrt::api
