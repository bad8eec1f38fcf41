// SPDX-License-Identifier: Apache-2.0
#include "emulator/emulated_machine.h"

#include <algorithm>
#include <bit>

#include "runtime/base/format.h"

namespace onrt::emu {

EmulatedMachine::EmulatedMachine(const Context& context, std::shared_ptr<MachineFile> file,
                                 MachineInfo info)
    : context_(context), file_(std::move(file)), info_(std::move(info)), space_(file_) {
  for (int core = 0; core < info_.logical_cores(); ++core) {
    running_.push_back(std::make_unique<Mutex>());
  }
}

EmulatedMachine::~EmulatedMachine() {
  if (!file_->check_process().ok()) {
    return;  // A forked child: everything belongs to the parent.
  }
  std::vector<CoreRange> claims;
  {
    const MutexLock lock(mutex_);
    claims.swap(claims_);
    rings_.clear();
    for (const auto& entry : programs_) {
      file_->unlist_model(entry.first);
    }
    programs_.clear();
  }
  for (const auto& extent : space_.remove_all()) {
    const Status freed = file_->free(extent);
    if (!freed.ok()) {
      ONRT_LOG(context_.log, Tdrv, Warning, "closing the machine: {}", freed.message());
    }
  }
  for (const CoreRange& range : claims) {
    const Status released =
        file_->release(physical(range.start), range.count * info_.logical_core_size);
    if (!released.ok()) {
      ONRT_LOG(context_.log, Tdrv, Warning, "closing the machine: {}", released.message());
    }
  }
}

// ---- checks -----------------------------------------------------------------------------------

Status EmulatedMachine::check_core(int core) const {
  ONRT_RETURN_IF_ERROR(file_->check_process());
  if (core < 0 || core >= info_.logical_cores()) {
    return Status(NRT_INVALID,
                  format("core {}: the machine has {} logical cores", core, info_.logical_cores()));
  }
  return ok_status();
}

Status EmulatedMachine::check_claimed(int core) {
  ONRT_RETURN_IF_ERROR(check_core(core));
  const MutexLock lock(mutex_);
  const bool claimed = std::any_of(claims_.begin(), claims_.end(), [&](const CoreRange& range) {
    return core >= range.start && core < range.start + range.count;
  });
  return claimed ? ok_status()
                 : Status(NRT_INVALID, format("core {} is not claimed by this session", core));
}

Status EmulatedMachine::check_device(int device) const {
  ONRT_RETURN_IF_ERROR(file_->check_process());
  if (device < 0 || device >= info_.device_count) {
    return Status(NRT_INVALID, format("device {}: the machine has {}", device, info_.device_count));
  }
  return ok_status();
}

Status EmulatedMachine::check_hbm(HbmId hbm) const {
  ONRT_RETURN_IF_ERROR(check_device(hbm.device));
  if (hbm.stack < 0 || hbm.stack >= info_.hbm_per_device) {
    return Status(NRT_INVALID, format("HBM {} of ND {}: a device has {}", hbm.stack, hbm.device,
                                      info_.hbm_per_device));
  }
  return ok_status();
}

// ---- cores ------------------------------------------------------------------------------------

Result<CoreRange> EmulatedMachine::claim_cores(const CoreRequest& request) {
  const int size = info_.logical_core_size;
  if (request.count <= 0 || request.count > info_.logical_cores() || request.start < -1 ||
      request.start >= info_.logical_cores()) {
    return Status(NRT_INVALID, format("{} cores from {} were asked for, the machine has {}",
                                      request.count, request.start, info_.logical_cores()));
  }
  ONRT_ASSIGN_OR_RETURN(const int first, file_->claim(request.start < 0 ? -1 : request.start * size,
                                                      request.count * size, size));
  const CoreRange range{first / size, request.count};
  const MutexLock lock(mutex_);
  claims_.push_back(range);
  return range;
}

Status EmulatedMachine::release_cores(const CoreRange& range) {
  ONRT_RETURN_IF_ERROR(file_->check_process());
  const MutexLock lock(mutex_);
  const auto claim = std::find_if(claims_.begin(), claims_.end(), [&](const CoreRange& held) {
    return held.start == range.start && held.count == range.count;
  });
  if (claim == claims_.end()) {
    return Status(NRT_INVALID,
                  format("cores {}+{} are not a claim of this session", range.start, range.count));
  }
  ONRT_RETURN_IF_ERROR(
      file_->release(physical(range.start), range.count * info_.logical_core_size));
  claims_.erase(claim);
  std::erase_if(notifications_, [&](const auto& entry) {
    return entry.first.first >= range.start && entry.first.first < range.start + range.count;
  });
  return ok_status();
}

Result<std::vector<CoreOwner>> EmulatedMachine::core_owners() {
  ONRT_ASSIGN_OR_RETURN(std::vector<CoreOwner> owners, file_->owners());
  for (CoreOwner& owner : owners) {
    owner.core /= info_.logical_core_size;
  }
  const auto same_core = [](const CoreOwner& a, const CoreOwner& b) { return a.core == b.core; };
  owners.erase(std::unique(owners.begin(), owners.end(), same_core), owners.end());
  return owners;
}

Status EmulatedMachine::reset_core(int core) {
  ONRT_RETURN_IF_ERROR(check_claimed(core));
  for (int i = 0; i < info_.logical_core_size; ++i) {
    ONRT_RETURN_IF_ERROR(file_->reset(physical(core) + i));
  }
  const MutexLock lock(mutex_);
  for (auto& [key, queue] : notifications_) {
    if (key.first == core) {
      queue->clear();
    }
  }
  return ok_status();
}

Result<HbmId> EmulatedMachine::hbm_of_core(int core) {
  ONRT_RETURN_IF_ERROR(check_core(core));
  const int within = physical(core) % info_.physical_cores_per_device;
  return HbmId{core / info_.logical_cores_per_device(),
               within * info_.hbm_per_device / info_.physical_cores_per_device};
}

// ---- memory -----------------------------------------------------------------------------------

Result<HbmExtent> EmulatedMachine::allocate_extent(HbmId hbm, uint64_t size, uint64_t alignment) {
  ONRT_RETURN_IF_ERROR(check_hbm(hbm));
  ONRT_ASSIGN_OR_RETURN(auto extent,
                        file_->allocate(stack_of(hbm), size, std::max<uint64_t>(alignment, 1)));
  const HbmExtent made{hbm, base_of(hbm) + extent->offset(), extent->size()};
  space_.add(made.address, std::move(extent));
  return made;
}

Status EmulatedMachine::free_extent(const HbmExtent& extent) {
  ONRT_RETURN_IF_ERROR(check_hbm(extent.hbm));
  const auto held = space_.find(extent.hbm.device, extent.address, extent.size);
  if (held == nullptr || held->size() != extent.size) {
    return Status(NRT_INVALID,
                  format("{} bytes at {:#x} of ND {} are not an extent of this session",
                         extent.size, extent.address, extent.hbm.device));
  }
  const auto removed = space_.remove(extent.hbm.device, extent.address);
  if (removed == nullptr) {
    return Status(NRT_INVALID, format("the extent at {:#x} of ND {} is already freed",
                                      extent.address, extent.hbm.device));
  }
  return file_->free(removed);
}

Result<HbmUsage> EmulatedMachine::hbm_usage(HbmId hbm) {
  ONRT_RETURN_IF_ERROR(check_hbm(hbm));
  return file_->usage(stack_of(hbm));
}

Result<std::shared_ptr<Extent>> EmulatedMachine::own_extent(HbmId hbm, DeviceAddress address,
                                                            uint64_t size) {
  ONRT_RETURN_IF_ERROR(check_hbm(hbm));
  auto extent = space_.find(hbm.device, address, size);
  if (extent == nullptr || extent->stack() != stack_of(hbm)) {
    return Status(NRT_INVALID,
                  format("{} bytes at {:#x} are not in an extent that this session has "
                         "in HBM {} of ND {}",
                         size, address, hbm.stack, hbm.device));
  }
  return extent;
}

Status EmulatedMachine::commit(HbmId hbm, DeviceAddress address, uint64_t size) {
  ONRT_ASSIGN_OR_RETURN(const auto extent, own_extent(hbm, address, size));
  return file_->commit(*extent, address - base_of(hbm), size);
}

Result<std::byte*> EmulatedMachine::map(HbmId hbm, DeviceAddress address, uint64_t size) {
  ONRT_ASSIGN_OR_RETURN(const auto extent, own_extent(hbm, address, size));
  const uint64_t offset = address - base_of(hbm);
  ONRT_RETURN_IF_ERROR(file_->commit(*extent, offset, size));
  return extent->data() + (offset - extent->offset());
}

Result<int> EmulatedMachine::share(HbmId hbm, DeviceAddress address, uint64_t size,
                                   uint64_t* offset) {
  ONRT_ASSIGN_OR_RETURN(const auto extent, own_extent(hbm, address, size));
  ONRT_RETURN_IF_ERROR(file_->commit(*extent, address - base_of(hbm), size));
  ONRT_ASSIGN_OR_RETURN(const int fd, file_->share(extent->stack()));
  *offset = address - base_of(hbm);
  return fd;
}

Status EmulatedMachine::account(int core, MemoryCategory category, int64_t bytes) {
  ONRT_RETURN_IF_ERROR(check_claimed(core));
  const auto index = static_cast<size_t>(category);
  if (index >= kMemoryCategories) {
    return Status(NRT_INVALID, format("memory category {} does not exist", index));
  }
  CoreRecord& record = file_->core(physical(core));
  add(record.bytes[index], static_cast<uint64_t>(bytes));
  store(record.last_change[index], bytes);
  const uint64_t now = load(record.bytes[index]);
  if (bytes > 0 && now > load(record.peak[index])) {
    store(record.peak[index], now);
  }
  return ok_status();
}

Status EmulatedMachine::account_host(HostCategory category, int64_t bytes) {
  ONRT_RETURN_IF_ERROR(file_->check_process());
  const auto index = static_cast<size_t>(category);
  if (index >= kHostCategories) {
    return Status(NRT_INVALID, format("host memory category {} does not exist", index));
  }
  add(file_->process().host_bytes[index], static_cast<uint64_t>(bytes));
  return ok_status();
}

Result<CoreStatistics*> EmulatedMachine::statistics(int core) {
  ONRT_RETURN_IF_ERROR(check_claimed(core));
  return &file_->statistics(physical(core));
}

Result<DeviceAddress> EmulatedMachine::map_host(int device, void* data, uint64_t size) {
  ONRT_RETURN_IF_ERROR(check_device(device));
  return space_.host().map(data, size);
}

Status EmulatedMachine::unmap_host(int device, DeviceAddress address) {
  ONRT_RETURN_IF_ERROR(check_device(device));
  return space_.host().unmap(address);
}

// ---- DMA --------------------------------------------------------------------------------------

Result<DmaQueueId> EmulatedMachine::create_dma_queue(int device, int descriptor_count) {
  ONRT_RETURN_IF_ERROR(check_device(device));
  static constexpr int kMaxRingDescriptors = 65536;
  if (descriptor_count < 1 || descriptor_count > kMaxRingDescriptors ||
      !std::has_single_bit(static_cast<unsigned>(descriptor_count))) {
    return Status(NRT_INVALID,
                  format("DMA ring of {} descriptors: expected a power of two up to {}",
                         descriptor_count, kMaxRingDescriptors));
  }
  const int per_engine = file_->profile().queues_per_engine;
  const int engines = file_->profile().dma_engines;
  const MutexLock lock(mutex_);
  // Spread over the engines: queue 0 of every engine, then queue 1, ...
  for (int i = 0; i < engines * per_engine; ++i) {
    const int engine = i % engines;
    const int queue = i / engines;
    auto& ring = rings_[{device, engine * per_engine + queue}];
    if (ring == nullptr) {
      ring = std::make_shared<DmaRing>(space_, device, descriptor_count, file_->counters(device));
      return DmaQueueId{device, engine, queue};
    }
  }
  return Status(NRT_RESOURCE,
                format("ND {}: all {} DMA queues are in use", device, engines * per_engine));
}

Result<std::shared_ptr<DmaRing>> EmulatedMachine::find_ring(const DmaQueueId& queue) {
  ONRT_RETURN_IF_ERROR(check_device(queue.device));
  const int per_engine = file_->profile().queues_per_engine;
  const MutexLock lock(mutex_);
  const auto found = rings_.find({queue.device, queue.engine * per_engine + queue.queue});
  if (queue.engine < 0 || queue.queue < 0 || queue.queue >= per_engine || found == rings_.end()) {
    return Status(NRT_INVALID, format("DMA queue {} of engine {} of ND {} does not exist",
                                      queue.queue, queue.engine, queue.device));
  }
  return found->second;
}

Status EmulatedMachine::destroy_dma_queue(const DmaQueueId& queue) {
  ONRT_RETURN_IF_ERROR(find_ring(queue).status());
  const MutexLock lock(mutex_);
  rings_.erase({queue.device, queue.engine * file_->profile().queues_per_engine + queue.queue});
  return ok_status();
}

Status EmulatedMachine::dma_submit(const DmaQueueId& queue,
                                   std::span<const DmaDescriptor> descriptors) {
  ONRT_ASSIGN_OR_RETURN(const auto ring, find_ring(queue));
  return ring->submit(descriptors);
}

Status EmulatedMachine::dma_wait(const DmaQueueId& queue, std::chrono::steady_clock::time_point) {
  ONRT_ASSIGN_OR_RETURN(const auto ring, find_ring(queue));
  return ring->wait();  // The ring was walked when its doorbell rang.
}

// ---- semaphores, events, notifications --------------------------------------------------------

Result<uint32_t*> EmulatedMachine::semaphore(int core, int index) {
  ONRT_RETURN_IF_ERROR(check_claimed(core));
  if (index < 0 || index >= kSemaphores) {
    return Status(NRT_INVALID,
                  format("semaphore {} of core {}: a core has {}", index, core, kSemaphores));
  }
  return &file_->sync(physical(core)).semaphores[index];
}

Result<uint32_t*> EmulatedMachine::event(int core, int index) {
  ONRT_RETURN_IF_ERROR(check_claimed(core));
  if (index < 0 || index >= kEvents) {
    return Status(NRT_INVALID, format("event {} of core {}: a core has {}", index, core, kEvents));
  }
  return &file_->sync(physical(core)).events[index];
}

// Sequentially consistent: semaphores order memory between cores and host threads.
Result<uint32_t> EmulatedMachine::semaphore_read(int core, int index) {
  ONRT_ASSIGN_OR_RETURN(uint32_t* word, semaphore(core, index));
  return std::atomic_ref<uint32_t>(*word).load();
}

Status EmulatedMachine::semaphore_write(int core, int index, uint32_t value) {
  ONRT_ASSIGN_OR_RETURN(uint32_t* word, semaphore(core, index));
  std::atomic_ref<uint32_t>(*word).store(value);
  return ok_status();
}

Status EmulatedMachine::semaphore_add(int core, int index, int32_t delta) {
  ONRT_ASSIGN_OR_RETURN(uint32_t* word, semaphore(core, index));
  std::atomic_ref<uint32_t>(*word).fetch_add(static_cast<uint32_t>(delta));
  return ok_status();
}

Result<bool> EmulatedMachine::event_read(int core, int index) {
  ONRT_ASSIGN_OR_RETURN(uint32_t* word, event(core, index));
  return std::atomic_ref<uint32_t>(*word).load() != 0;
}

Status EmulatedMachine::event_write(int core, int index, bool value) {
  ONRT_ASSIGN_OR_RETURN(uint32_t* word, event(core, index));
  std::atomic_ref<uint32_t>(*word).store(value ? 1 : 0);
  return ok_status();
}

Status EmulatedMachine::create_notification_queue(int core, NotificationType type, int capacity) {
  ONRT_RETURN_IF_ERROR(check_claimed(core));
  static constexpr int kMaxCapacity = 1 << 20;
  if (capacity < 1 || capacity > kMaxCapacity ||
      !std::has_single_bit(static_cast<unsigned>(capacity))) {
    return Status(NRT_INVALID,
                  format("notification queue of {} entries: expected a power of two up "
                         "to {}",
                         capacity, kMaxCapacity));
  }
  const MutexLock lock(mutex_);
  notifications_[{core, static_cast<int>(type)}] = std::make_shared<NotificationQueue>(capacity);
  return ok_status();
}

Result<std::shared_ptr<NotificationQueue>> EmulatedMachine::find_notifications(
    int core, NotificationType type) {
  ONRT_RETURN_IF_ERROR(check_core(core));
  const MutexLock lock(mutex_);
  const auto found = notifications_.find({core, static_cast<int>(type)});
  if (found == notifications_.end()) {
    return Status(NRT_INVALID, format("core {} has no notification queue of type {}", core,
                                      static_cast<int>(type)));
  }
  return found->second;
}

Result<bool> EmulatedMachine::poll_notification(int core, NotificationType type,
                                                Notification* out) {
  ONRT_ASSIGN_OR_RETURN(const auto queue, find_notifications(core, type));
  return queue->poll(out);
}

Status EmulatedMachine::wait_notification(int core, NotificationType type,
                                          std::chrono::steady_clock::time_point deadline,
                                          Notification* out) {
  ONRT_ASSIGN_OR_RETURN(const auto queue, find_notifications(core, type));
  return queue->wait(deadline, out);
}

Result<DeviceCounters> EmulatedMachine::counters(int device) {
  ONRT_RETURN_IF_ERROR(check_device(device));
  const DeviceCounterRecord& record = file_->counters(device);
  DeviceCounters counters;
  counters.dma_descriptors = load(record.dma_descriptors);
  counters.dma_bytes = load(record.dma_bytes);
  const int per_device = info_.physical_cores_per_device;
  for (int core = device * per_device; core < (device + 1) * per_device; ++core) {
    const CoreRecord& on_core = file_->core(core);
    counters.programs_failed += load(on_core.programs_failed);
    counters.programs_started += load(on_core.programs_failed) + load(on_core.programs_completed);
  }
  counters.hbm_corrected_errors = load(record.hbm_corrected_errors);
  counters.hbm_uncorrected_errors = load(record.hbm_uncorrected_errors);
  return counters;
}

}  // namespace onrt::emu
