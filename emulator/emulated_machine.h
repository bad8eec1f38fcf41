// SPDX-License-Identifier: Apache-2.0
// A session with an emulated machine.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "emulator/address_space.h"
#include "emulator/dma_ring.h"
#include "emulator/machine_file.h"
#include "emulator/notification_queue.h"
#include "runtime/driver/driver.h"

namespace onrt {
class ThreadPool;
struct EngineBinding;
struct EngineRun;
}  // namespace onrt

namespace onrt::emu {

class EmulatedMachine : public Machine {
 public:
  // `context` outlives the machine. `info` is the profile's with this session's core size.
  EmulatedMachine(const Context& context, std::shared_ptr<MachineFile> file, MachineInfo info);
  ~EmulatedMachine() override;

  const MachineInfo& info() const override { return info_; }

  Result<CoreRange> claim_cores(const CoreRequest& request) override;
  Status release_cores(const CoreRange& range) override;
  Result<std::vector<CoreOwner>> core_owners() override;
  Status reset_core(int core) override;
  Result<HbmId> hbm_of_core(int core) override;

  Result<HbmExtent> allocate_extent(HbmId hbm, uint64_t size, uint64_t alignment) override;
  Status free_extent(const HbmExtent& extent) override;
  Result<HbmUsage> hbm_usage(HbmId hbm) override;
  Status commit(HbmId hbm, DeviceAddress address, uint64_t size) override;
  Result<std::byte*> map(HbmId hbm, DeviceAddress address, uint64_t size) override;
  Result<int> share(HbmId hbm, DeviceAddress address, uint64_t size, uint64_t* offset) override;
  Status account(int core, MemoryCategory category, int64_t bytes) override;
  Status account_host(HostCategory category, int64_t bytes) override;
  Result<CoreStatistics*> statistics(int core) override;

  Result<DeviceAddress> map_host(int device, void* data, uint64_t size) override;
  Status unmap_host(int device, DeviceAddress address) override;

  Result<DmaQueueId> create_dma_queue(int device, int descriptor_count) override;
  Status destroy_dma_queue(const DmaQueueId& queue) override;
  Status dma_submit(const DmaQueueId& queue, std::span<const DmaDescriptor> descriptors) override;
  Status dma_wait(const DmaQueueId& queue, std::chrono::steady_clock::time_point deadline) override;

  Result<uint32_t> semaphore_read(int core, int index) override;
  Status semaphore_write(int core, int index, uint32_t value) override;
  Status semaphore_add(int core, int index, int32_t delta) override;
  Result<bool> event_read(int core, int index) override;
  Status event_write(int core, int index, bool value) override;

  Status create_notification_queue(int core, NotificationType type, int capacity) override;
  Result<bool> poll_notification(int core, NotificationType type, Notification* out) override;
  Status wait_notification(int core, NotificationType type,
                           std::chrono::steady_clock::time_point deadline,
                           Notification* out) override;

  Result<ProgramInfo> program_load(int core, const ProgramImage& image) override;
  Status program_unload(int core, ProgramId id) override;
  Status program_start(int core, ProgramId id, const ProgramStart& start) override;

  Result<DeviceCounters> counters(int device) override;

 private:
  struct LoadedProgram;
  struct Binding;
  using QueueKey = std::pair<int, int>;         // device, engine * queues per engine + queue
  using NotificationKey = std::pair<int, int>;  // core, type

  int physical(int logical) const { return logical * info_.logical_core_size; }
  Status check_core(int core) const;  // within the machine
  Status check_claimed(int core);     // claimed by this session
  Status check_device(int device) const;
  Status check_hbm(HbmId hbm) const;
  int stack_of(HbmId hbm) const { return hbm.device * info_.hbm_per_device + hbm.stack; }
  DeviceAddress base_of(HbmId hbm) const { return info_.hbm_base[static_cast<size_t>(hbm.stack)]; }
  // The own extent that holds the range; NRT_INVALID when there is none.
  Result<std::shared_ptr<Extent>> own_extent(HbmId hbm, DeviceAddress address, uint64_t size);
  Result<std::shared_ptr<DmaRing>> find_ring(const DmaQueueId& queue);
  Result<std::shared_ptr<NotificationQueue>> find_notifications(int core, NotificationType type);
  Result<std::shared_ptr<LoadedProgram>> find_program(int core, ProgramId id);
  Result<std::byte*> resolve_hbm(HbmId hbm, DeviceAddress address, uint64_t size,
                                 ExtentCache* cache);
  Result<Binding> bind(const LoadedProgram& program, const ProgramStart& start);
  Notification run_program(int core, const LoadedProgram& program, const EngineBinding& binding,
                           const EngineRun& run);
  Result<uint32_t*> semaphore(int core, int index);
  Result<uint32_t*> event(int core, int index);

  const Context& context_;
  const std::shared_ptr<MachineFile> file_;
  const MachineInfo info_;
  AddressSpace space_;
  std::vector<std::unique_ptr<Mutex>> running_;  // by logical core: held while a program runs

  Mutex mutex_;
  std::vector<CoreRange> claims_ ONRT_GUARDED_BY(mutex_);  // logical
  std::map<QueueKey, std::shared_ptr<DmaRing>> rings_ ONRT_GUARDED_BY(mutex_);
  std::map<NotificationKey, std::shared_ptr<NotificationQueue>> notifications_
      ONRT_GUARDED_BY(mutex_);
  std::map<ProgramId, std::shared_ptr<LoadedProgram>> programs_ ONRT_GUARDED_BY(mutex_);
  // Set with the first program, before anything can start.
  std::shared_ptr<ThreadPool> pool_;
};

}  // namespace onrt::emu
