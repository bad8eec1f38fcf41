// SPDX-License-Identifier: Apache-2.0
// A machine in memory, for unit tests of what lies above the Driver seam. It is strict: DMA, maps
// and programs that touch memory which was not committed, or is not owned, fail.
#pragma once

#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "allocator/offset_allocator.h"
#include "runtime/driver/driver.h"
#include "runtime/neff/neff_package.h"

namespace onrt::testing {

// What a fake program does; it is the first bytes of a model's code.
enum class FakeOp : uint32_t {
  kAdd,      // f32: each output = sum of the inputs + the first constant, if there is one
  kInc,      // f32: output k = input k + value
  kStatus,   // notifies `value`
  kHang,     // notifies NRT_TIMEOUT at the deadline
  kSilent,   // never notifies
  kNan,      // f32: fills every output with NaN
  kHook,     // calls FakeBoard::hook, then does kAdd
  kScratch,  // f32: like kAdd, through the scratchpad
};
struct FakeProgram {
  uint32_t magic = 0x454B4146;
  FakeOp op = FakeOp::kAdd;
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  int32_t value = 0;
  uint32_t reserved = 0;
  uint64_t scratch_bytes = 0;
};

// A package with f32 vectors of `elements`: input0.., output0...
NeffPackage fake_package(FakeProgram program, int64_t elements,
                         const std::vector<float>& constants = {});

// The hardware, shared by all FakeMachines ("processes") that are opened on it. Thread-safe.
class FakeBoard {
 public:
  FakeBoard(int devices, int cores_per_device, int stacks_per_device, uint64_t stack_bytes);
  ~FakeBoard();

  static constexpr DeviceAddress kHbmBase = 0x800000000000;
  static constexpr DeviceAddress kStackSpan = 1ULL << 40;

  struct Stack {
    std::byte* memory = nullptr;  // reserved, not backed
    OffsetAllocator space;
    std::map<DeviceAddress, OffsetAllocator::Block> extents;
    std::set<uint64_t> committed;  // 4 KiB pages
  };

  MachineInfo info;
  std::mutex mutex;
  std::vector<Stack> stacks;      // device x stack
  std::map<int, int> core_owner;  // core -> pid given at open
  std::map<int, int> resets;      // core -> times
  DeviceCounters counters;
  uint64_t commits = 0;
  std::map<std::pair<int, MemoryCategory>, int64_t> accounted;
  // The nth DMA submission from now fails; 0: none.
  int fail_dma_in = 0;
  int fail_load_in = 0;
  int fail_unload_in = 0;
  std::function<void()> hook;
};

class FakeMachine : public Machine {
 public:
  FakeMachine(std::shared_ptr<FakeBoard> board, int pid, int logical_core_size);
  ~FakeMachine() override;

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

  Result<DeviceAddress> map_host(int device, void* data, uint64_t size) override;
  Status unmap_host(int device, DeviceAddress address) override;
  Result<DmaQueueId> create_dma_queue(int device, int descriptor_count) override;
  Status destroy_dma_queue(const DmaQueueId& queue) override;
  Status dma_submit(const DmaQueueId& queue, std::span<const DmaDescriptor> ring) override;
  Status dma_wait(const DmaQueueId& queue, std::chrono::steady_clock::time_point deadline) override;

  Status create_notification_queue(int core, NotificationType type, int capacity) override;
  Result<bool> poll_notification(int core, NotificationType type, Notification* out) override;
  Status wait_notification(int core, NotificationType type,
                           std::chrono::steady_clock::time_point deadline,
                           Notification* out) override;

  Result<ProgramInfo> program_load(int core, const ProgramImage& image) override;
  Status program_unload(int core, ProgramId program) override;
  Status program_start(int core, ProgramId program, const ProgramStart& start) override;

  // What is still held; for leak checks.
  size_t programs() const;
  size_t host_mappings() const;

 private:
  struct Program {
    FakeProgram code;
    std::vector<float> constants;
  };
  struct Queue {
    std::mutex mutex;
    std::condition_variable filled;
    std::deque<Notification> notes;
  };

  // Host pointer for a device or bus address; NRT_FAILURE when it is not usable.
  Result<std::byte*> reach(DeviceAddress address, uint64_t size);
  Result<FakeBoard::Stack*> stack(const HbmId& hbm);
  Result<int32_t> run(const Program& program, const ProgramStart& start);
  Status add(const Program& program, const ProgramStart& start);
  Status increment(const Program& program, const ProgramStart& start);
  Status fill_nan(const Program& program, const ProgramStart& start);

  std::shared_ptr<FakeBoard> board_;
  const int pid_;
  MachineInfo info_;
  mutable std::mutex mutex_;
  std::map<DeviceAddress, std::pair<std::byte*, uint64_t>> host_;
  DeviceAddress next_bus_ = 1ULL << 20;
  std::map<int, NRT_STATUS> queues_;  // dma queue -> result of what was submitted
  std::map<int, std::unique_ptr<Queue>> notifications_;
  std::map<ProgramId, Program> programs_;
  ProgramId next_program_ = 1;
};

}  // namespace onrt::testing
