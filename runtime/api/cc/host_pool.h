// SPDX-License-Identifier: Apache-2.0
// Host memory that other ranks can map: one sparse memfd, handed out in pages, first fit.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::api {

// Thread-safe.
class HostPool {
 public:
  static constexpr uint64_t kBytes = 64ULL << 30;  // addresses; pages exist once they are touched

  HostPool() = default;
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  // The file; maps nothing yet. NRT_RESOURCE when `ulimit -f` forbids it.
  Status create();
  bool exists() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }

  Result<void*> allocate(uint64_t bytes);
  Status free(void* data);
  // Offset in the file when [data, data + bytes) is memory of the pool.
  std::optional<uint64_t> offset_of(const void* data, uint64_t bytes) const;

 private:
  UniqueFd fd_;
  Mutex mutex_;
  std::atomic<std::byte*> base_{nullptr};                      // set once, by who holds mutex_
  std::map<uint64_t, uint64_t> used_ ONRT_GUARDED_BY(mutex_);  // offset, bytes
};

}  // namespace onrt::api
