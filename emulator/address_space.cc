// SPDX-License-Identifier: Apache-2.0
#include "emulator/address_space.h"

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

#include "runtime/base/format.h"

namespace onrt::emu {

AddressSpace::AddressSpace(std::shared_ptr<MachineFile> file) : file_(std::move(file)) {}

std::vector<AddressSpace::Entry>::const_iterator AddressSpace::at_or_before(
    int device, DeviceAddress address) const {
  auto after = std::upper_bound(entries_.begin(), entries_.end(), std::pair(device, address),
                                [](const std::pair<int, DeviceAddress>& key, const Entry& entry) {
                                  return key < std::pair(entry.device, entry.address);
                                });
  if (after == entries_.begin() || std::prev(after)->device != device) {
    return entries_.end();
  }
  return std::prev(after);
}

void AddressSpace::add(DeviceAddress address, std::shared_ptr<Extent> extent) {
  const int device = extent->stack() / file_->profile().info.hbm_per_device;
  const std::unique_lock lock(mutex_);
  const auto place =
      std::lower_bound(entries_.begin(), entries_.end(), std::pair(device, address),
                       [](const Entry& entry, const std::pair<int, DeviceAddress>& key) {
                         return std::pair(entry.device, entry.address) < key;
                       });
  entries_.insert(place, Entry{device, address, std::move(extent)});
}

std::shared_ptr<Extent> AddressSpace::remove(int device, DeviceAddress address) {
  const std::unique_lock lock(mutex_);
  const auto found = at_or_before(device, address);
  if (found == entries_.end() || found->address != address) {
    return nullptr;
  }
  auto extent = found->extent;
  entries_.erase(found);
  return extent;
}

std::vector<std::shared_ptr<Extent>> AddressSpace::remove_all() {
  const std::unique_lock lock(mutex_);
  std::vector<std::shared_ptr<Extent>> extents;
  for (Entry& entry : entries_) {
    extents.push_back(std::move(entry.extent));
  }
  entries_.clear();
  return extents;
}

std::shared_ptr<Extent> AddressSpace::find(int device, DeviceAddress address, uint64_t size) const {
  const std::shared_lock lock(mutex_);
  const auto found = at_or_before(device, address);
  if (found == entries_.end()) {
    return nullptr;
  }
  const uint64_t offset = found->extent->offset() + (address - found->address);
  return found->extent->contains(offset, size) ? found->extent : nullptr;
}

Result<std::byte*> AddressSpace::resolve(int device, DeviceAddress address, uint64_t size,
                                         ExtentCache* cache) {
  if (HostMap::is_host(address)) {
    std::byte* data = host_.resolve(address, size);
    if (data == nullptr) {
      return Status(NRT_INVALID,
                    format("bus addresses {:#x} + {} are not mapped host memory", address, size));
    }
    return data;
  }
  const auto inside = [&](const ExtentCache& hit) {
    return hit.extent != nullptr && hit.device == device && address >= hit.address &&
           !hit.extent->freed() &&
           hit.extent->contains(hit.extent->offset() + (address - hit.address), size);
  };
  if (!inside(*cache)) {
    const std::shared_lock lock(mutex_);
    const auto found = at_or_before(device, address);
    if (found != entries_.end()) {
      *cache = ExtentCache{found->extent, device, found->address};
    }
  }
  if (!inside(*cache)) {
    return Status(NRT_INVALID, format("addresses {:#x} + {} of ND {} are not in HBM that this "
                                      "process holds",
                                      address, size, device));
  }
  Extent& extent = *cache->extent;
  const uint64_t within = address - cache->address;
  ONRT_RETURN_IF_ERROR(file_->commit(extent, extent.offset() + within, size));
  return extent.data() + within;
}

}  // namespace onrt::emu
