// SPDX-License-Identifier: Apache-2.0
// Host memory as the DMA engines see it: what an IOMMU does. A bus address is
//   bit 62 | slot << 46 | offset
// which no HBM stack has, so that one look tells host memory from HBM.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/driver/driver.h"

namespace onrt::emu {

// Thread-safe. resolve() takes no lock.
class HostMap {
 public:
  HostMap();

  Result<DeviceAddress> map(void* data, uint64_t size);
  Status unmap(DeviceAddress address);
  // Host pointer for [address, address + size); null when the range is not mapped.
  std::byte* resolve(DeviceAddress address, uint64_t size) const;

  static bool is_host(DeviceAddress address) { return (address >> kFlagBit & 1) != 0; }

 private:
  struct Slot {
    std::atomic<std::byte*> data{nullptr};
    std::atomic<uint64_t> size{0};
  };
  static constexpr int kFlagBit = 62;
  static constexpr int kSlotShift = 46;
  static constexpr uint32_t kSlots = 16384;

  const std::unique_ptr<Slot[]> slots_;
  Mutex mutex_;
  uint32_t unused_ ONRT_GUARDED_BY(mutex_) = 0;  // slots from here on were never used
  std::vector<uint32_t> free_ ONRT_GUARDED_BY(mutex_);
};

}  // namespace onrt::emu
