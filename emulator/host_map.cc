// SPDX-License-Identifier: Apache-2.0
#include "emulator/host_map.h"

#include "runtime/base/format.h"

namespace onrt::emu {

HostMap::HostMap() : slots_(std::make_unique<Slot[]>(kSlots)) {}

Result<DeviceAddress> HostMap::map(void* data, uint64_t size) {
  if (data == nullptr || size == 0 || size >= 1ULL << kSlotShift) {
    return Status(NRT_INVALID, format("host memory for DMA: {} bytes at {} can't be mapped", size,
                                      data == nullptr ? "a null pointer" : "this address"));
  }
  const MutexLock lock(mutex_);
  if (free_.empty() && unused_ == kSlots) {
    return Status(NRT_RESOURCE, format("host memory for DMA: {} ranges are mapped, that is all the "
                                       "emulated IOMMU has",
                                       kSlots));
  }
  uint32_t slot = unused_;
  if (free_.empty()) {
    ++unused_;
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  // Release, paired with the acquire in resolve(): whoever sees the size sees the pointer.
  slots_[slot].data.store(static_cast<std::byte*>(data), std::memory_order_relaxed);
  slots_[slot].size.store(size, std::memory_order_release);
  return (1ULL << kFlagBit) | static_cast<uint64_t>(slot) << kSlotShift;
}

Status HostMap::unmap(DeviceAddress address) {
  const uint64_t slot = (address >> kSlotShift) & (kSlots - 1);
  const bool is_start = address == ((1ULL << kFlagBit) | slot << kSlotShift);
  const MutexLock lock(mutex_);
  if (!is_start || slots_[slot].size.load(std::memory_order_relaxed) == 0) {
    return Status(NRT_INVALID,
                  format("bus address {:#x} is not the start of mapped host memory", address));
  }
  slots_[slot].size.store(0, std::memory_order_relaxed);
  slots_[slot].data.store(nullptr, std::memory_order_relaxed);
  free_.push_back(static_cast<uint32_t>(slot));
  return ok_status();
}

std::byte* HostMap::resolve(DeviceAddress address, uint64_t size) const {
  if (!is_host(address) || address >> (kFlagBit + 1) != 0) {
    return nullptr;
  }
  const uint64_t index = address >> kSlotShift & ((1ULL << (kFlagBit - kSlotShift)) - 1);
  const uint64_t offset = address & ((1ULL << kSlotShift) - 1);
  if (index >= kSlots) {
    return nullptr;
  }
  const Slot& slot = slots_[index];
  const uint64_t mapped = slot.size.load(std::memory_order_acquire);
  std::byte* data = slot.data.load(std::memory_order_relaxed);
  if (data == nullptr || offset > mapped || size > mapped - offset) {
    return nullptr;
  }
  return data + offset;
}

}  // namespace onrt::emu
