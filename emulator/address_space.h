// SPDX-License-Identifier: Apache-2.0
// What a session's DMA engines and programs may touch: its own extents and its mapped host memory.
#pragma once

#include <memory>
#include <shared_mutex>
#include <vector>

#include "emulator/host_map.h"
#include "emulator/machine_file.h"

namespace onrt::emu {

// The extent that a user of the address space hit last. Keeps it mapped. Thread-compatible.
struct ExtentCache {
  std::shared_ptr<Extent> extent;
  int device = -1;
  DeviceAddress address = 0;
};

// Thread-safe.
class AddressSpace {
 public:
  explicit AddressSpace(std::shared_ptr<MachineFile> file);

  HostMap& host() { return host_; }

  void add(DeviceAddress address, std::shared_ptr<Extent> extent);
  // The extent that starts at `address` of `device`; null when there is none.
  std::shared_ptr<Extent> remove(int device, DeviceAddress address);
  std::vector<std::shared_ptr<Extent>> remove_all();
  // The extent that holds the range; null when no own extent does.
  std::shared_ptr<Extent> find(int device, DeviceAddress address, uint64_t size) const;

  // Host pointer for a range of own HBM or mapped host memory, with pages behind it. NRT_INVALID
  // when the range isn't the session's, NRT_RESOURCE when there is no backing.
  Result<std::byte*> resolve(int device, DeviceAddress address, uint64_t size, ExtentCache* cache);

 private:
  struct Entry {
    int device;
    DeviceAddress address;
    std::shared_ptr<Extent> extent;
  };
  std::vector<Entry>::const_iterator at_or_before(int device, DeviceAddress address) const;

  const std::shared_ptr<MachineFile> file_;
  HostMap host_;
  mutable std::shared_mutex mutex_;  // many readers; guards entries_
  std::vector<Entry> entries_;       // sorted by device, address
};

}  // namespace onrt::emu
