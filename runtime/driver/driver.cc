// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/driver.h"

#include <array>

#include "runtime/base/format.h"

namespace onrt {
namespace {

constexpr std::array<std::string_view, kMemoryCategories> kCategoryNames = {
    "uncategorized", "model code",        "constants", "tensors",
    "scratchpad",    "shared scratchpad", "runtime",   "dma rings",
    "notifications", "collectives",       "profiler"};

Status unsupported(std::string_view method) {
  return Status(NRT_FAILURE, format("unsupported: {} is not implemented by this backend", method));
}

}  // namespace

std::string_view memory_category_name(MemoryCategory category) {
  const auto index = static_cast<size_t>(category);
  return index < kCategoryNames.size() ? kCategoryNames[index] : std::string_view("unknown");
}

Result<CoreRange> Machine::claim_cores(const CoreRequest&) { return unsupported("claim_cores"); }
Status Machine::release_cores(const CoreRange&) { return unsupported("release_cores"); }
Result<std::vector<CoreOwner>> Machine::core_owners() { return unsupported("core_owners"); }
Status Machine::reset_core(int) { return unsupported("reset_core"); }
Result<HbmId> Machine::hbm_of_core(int) { return unsupported("hbm_of_core"); }

Result<HbmExtent> Machine::allocate_extent(HbmId, uint64_t, uint64_t) {
  return unsupported("allocate_extent");
}
Status Machine::free_extent(const HbmExtent&) { return unsupported("free_extent"); }
Result<HbmUsage> Machine::hbm_usage(HbmId) { return unsupported("hbm_usage"); }
Status Machine::commit(HbmId, DeviceAddress, uint64_t) { return unsupported("commit"); }
Result<std::byte*> Machine::map(HbmId, DeviceAddress, uint64_t) { return unsupported("map"); }
Result<int> Machine::share(HbmId, DeviceAddress, uint64_t, uint64_t*) {
  return unsupported("share");
}
Status Machine::account(int, MemoryCategory, int64_t) { return unsupported("account"); }
Status Machine::account_host(HostCategory, int64_t) { return unsupported("account_host"); }
Result<CoreStatistics*> Machine::statistics(int) { return unsupported("statistics"); }

Result<DeviceAddress> Machine::map_host(int, void*, uint64_t) { return unsupported("map_host"); }
Status Machine::unmap_host(int, DeviceAddress) { return unsupported("unmap_host"); }

Result<DmaQueueId> Machine::create_dma_queue(int, int) { return unsupported("create_dma_queue"); }
Status Machine::destroy_dma_queue(const DmaQueueId&) { return unsupported("destroy_dma_queue"); }
Status Machine::dma_submit(const DmaQueueId&, std::span<const DmaDescriptor>) {
  return unsupported("dma_submit");
}
Status Machine::dma_wait(const DmaQueueId&, std::chrono::steady_clock::time_point) {
  return unsupported("dma_wait");
}

Result<uint32_t> Machine::semaphore_read(int, int) { return unsupported("semaphore_read"); }
Status Machine::semaphore_write(int, int, uint32_t) { return unsupported("semaphore_write"); }
Status Machine::semaphore_add(int, int, int32_t) { return unsupported("semaphore_add"); }
Result<bool> Machine::event_read(int, int) { return unsupported("event_read"); }
Status Machine::event_write(int, int, bool) { return unsupported("event_write"); }

Status Machine::create_notification_queue(int, NotificationType, int) {
  return unsupported("create_notification_queue");
}
Result<bool> Machine::poll_notification(int, NotificationType, Notification*) {
  return unsupported("poll_notification");
}
Status Machine::wait_notification(int, NotificationType, std::chrono::steady_clock::time_point,
                                  Notification*) {
  return unsupported("wait_notification");
}

Result<ProgramInfo> Machine::program_load(int, const ProgramImage&) {
  return unsupported("program_load");
}
Status Machine::program_unload(int, ProgramId) { return unsupported("program_unload"); }
Status Machine::program_start(int, ProgramId, const ProgramStart&) {
  return unsupported("program_start");
}

Result<DeviceCounters> Machine::counters(int) { return unsupported("counters"); }

}  // namespace onrt
