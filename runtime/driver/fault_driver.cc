// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/fault_driver.h"

#include <deque>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/base/format.h"

namespace onrt {
namespace {

Status injected(const FaultRule& rule) {
  return Status(rule.status, format("injected fault: {}", rule.text));
}

using QueueKey = std::tuple<int, int, int>;
QueueKey key_of(const DmaQueueId& queue) { return {queue.device, queue.engine, queue.queue}; }

class FaultMachine : public Machine {
 public:
  FaultMachine(std::unique_ptr<Machine> machine, FaultPlan plan)
      : machine_(std::move(machine)), faults_(std::move(plan)) {}

  const MachineInfo& info() const override { return machine_->info(); }

  Result<CoreRange> claim_cores(const CoreRequest& request) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kClaim));
    return machine_->claim_cores(request);
  }
  Status release_cores(const CoreRange& range) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kRelease));
    return machine_->release_cores(range);
  }
  Result<std::vector<CoreOwner>> core_owners() override { return machine_->core_owners(); }
  Status reset_core(int core) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kReset));
    return machine_->reset_core(core);
  }
  Result<HbmId> hbm_of_core(int core) override { return machine_->hbm_of_core(core); }

  Result<HbmExtent> allocate_extent(HbmId hbm, uint64_t size, uint64_t alignment) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kAllocate));
    return machine_->allocate_extent(hbm, size, alignment);
  }
  Status free_extent(const HbmExtent& extent) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kFree));
    return machine_->free_extent(extent);
  }
  Result<HbmUsage> hbm_usage(HbmId hbm) override { return machine_->hbm_usage(hbm); }
  Status commit(HbmId hbm, DeviceAddress address, uint64_t size) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kCommit));
    return machine_->commit(hbm, address, size);
  }
  Result<std::byte*> map(HbmId hbm, DeviceAddress address, uint64_t size) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kMap));
    return machine_->map(hbm, address, size);
  }
  Result<int> share(HbmId hbm, DeviceAddress address, uint64_t size, uint64_t* offset) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kShare));
    return machine_->share(hbm, address, size, offset);
  }
  Status account(int core, MemoryCategory category, int64_t bytes) override {
    return machine_->account(core, category, bytes);
  }
  Status account_host(HostCategory category, int64_t bytes) override {
    return machine_->account_host(category, bytes);
  }
  Result<CoreStatistics*> statistics(int core) override { return machine_->statistics(core); }

  Result<DeviceAddress> map_host(int device, void* data, uint64_t size) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kMapHost));
    return machine_->map_host(device, data, size);
  }
  Status unmap_host(int device, DeviceAddress address) override {
    return machine_->unmap_host(device, address);
  }

  Result<DmaQueueId> create_dma_queue(int device, int descriptor_count) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kQueue));
    return machine_->create_dma_queue(device, descriptor_count);
  }
  Status destroy_dma_queue(const DmaQueueId& queue) override {
    {
      const MutexLock lock(mutex_);
      failed_dma_.erase(key_of(queue));
    }
    return machine_->destroy_dma_queue(queue);
  }
  Status dma_submit(const DmaQueueId& queue, std::span<const DmaDescriptor> descriptors) override {
    const FaultRule* rule = faults_.next(FaultOperation::kDma);
    if (rule == nullptr) {
      return machine_->dma_submit(queue, descriptors);
    }
    const MutexLock lock(mutex_);
    failed_dma_.try_emplace(key_of(queue), rule);
    return ok_status();
  }
  Status dma_wait(const DmaQueueId& queue,
                  std::chrono::steady_clock::time_point deadline) override {
    ONRT_RETURN_IF_ERROR(machine_->dma_wait(queue, deadline));
    const MutexLock lock(mutex_);
    const auto failed = failed_dma_.find(key_of(queue));
    if (failed == failed_dma_.end()) {
      return ok_status();
    }
    const FaultRule* rule = failed->second;
    failed_dma_.erase(failed);
    return injected(*rule);
  }

  Result<uint32_t> semaphore_read(int core, int index) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kSemaphore));
    return machine_->semaphore_read(core, index);
  }
  Status semaphore_write(int core, int index, uint32_t value) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kSemaphore));
    return machine_->semaphore_write(core, index, value);
  }
  Status semaphore_add(int core, int index, int32_t delta) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kSemaphore));
    return machine_->semaphore_add(core, index, delta);
  }
  Result<bool> event_read(int core, int index) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kEvent));
    return machine_->event_read(core, index);
  }
  Status event_write(int core, int index, bool value) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kEvent));
    return machine_->event_write(core, index, value);
  }

  Status create_notification_queue(int core, NotificationType type, int capacity) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kNotification));
    return machine_->create_notification_queue(core, type, capacity);
  }
  Result<bool> poll_notification(int core, NotificationType type, Notification* out) override {
    ONRT_ASSIGN_OR_RETURN(const bool found, machine_->poll_notification(core, type, out));
    return found || take_failed(core, type, out);
  }
  Status wait_notification(int core, NotificationType type,
                           std::chrono::steady_clock::time_point deadline,
                           Notification* out) override {
    ONRT_ASSIGN_OR_RETURN(const bool found, poll_notification(core, type, out));
    return found ? ok_status() : machine_->wait_notification(core, type, deadline, out);
  }

  Result<ProgramInfo> program_load(int core, const ProgramImage& image) override {
    ONRT_RETURN_IF_ERROR(check(FaultOperation::kLoad));
    return machine_->program_load(core, image);
  }
  Status program_unload(int core, ProgramId program) override {
    return machine_->program_unload(core, program);
  }
  Status program_start(int core, ProgramId program, const ProgramStart& start) override {
    const FaultRule* rule = faults_.next(FaultOperation::kProgram);
    if (rule == nullptr) {
      return machine_->program_start(core, program, start);
    }
    if (rule->endless) {
      return ok_status();
    }
    Notification notification;
    notification.status = rule->status;
    notification.program = program;
    notification.sequence = start.sequence;
    const MutexLock lock(mutex_);
    failed_programs_[core].push_back(notification);
    return ok_status();
  }

  Result<DeviceCounters> counters(int device) override { return machine_->counters(device); }

 private:
  Status check(FaultOperation operation) {
    const FaultRule* rule = faults_.next(operation);
    return rule == nullptr ? ok_status() : injected(*rule);
  }

  bool take_failed(int core, NotificationType type, Notification* out) ONRT_EXCLUDES(mutex_) {
    if (type != NotificationType::kNotify) {
      return false;
    }
    const MutexLock lock(mutex_);
    auto& queue = failed_programs_[core];
    if (queue.empty()) {
      return false;
    }
    *out = queue.front();
    queue.pop_front();
    return true;
  }

  const std::unique_ptr<Machine> machine_;
  FaultCounter faults_;
  Mutex mutex_;
  std::map<QueueKey, const FaultRule*> failed_dma_ ONRT_GUARDED_BY(mutex_);
  std::map<int, std::deque<Notification>> failed_programs_ ONRT_GUARDED_BY(mutex_);
};

class FaultDriver : public Driver {
 public:
  FaultDriver(std::unique_ptr<Driver> driver, FaultPlan plan)
      : driver_(std::move(driver)), plan_(plan), opens_(std::move(plan)) {}

  std::string_view name() const override { return driver_->name(); }
  Status probe(const Context& context) const override { return driver_->probe(context); }
  Result<std::unique_ptr<Machine>> open(const Context& context,
                                        const MachineRequest& request) const override {
    if (const FaultRule* rule = opens_.next(FaultOperation::kOpen)) {
      return injected(*rule);
    }
    ONRT_ASSIGN_OR_RETURN(auto machine, driver_->open(context, request));
    return make_fault_machine(std::move(machine), plan_);
  }

 private:
  const std::unique_ptr<Driver> driver_;
  const FaultPlan plan_;
  mutable FaultCounter opens_;
};

}  // namespace

std::unique_ptr<Driver> make_fault_driver(std::unique_ptr<Driver> driver, FaultPlan plan) {
  return std::make_unique<FaultDriver>(std::move(driver), std::move(plan));
}

std::unique_ptr<Machine> make_fault_machine(std::unique_ptr<Machine> machine, FaultPlan plan) {
  return std::make_unique<FaultMachine>(std::move(machine), std::move(plan));
}

}  // namespace onrt
