// SPDX-License-Identifier: Apache-2.0
// Memory of one HBM stack for one process. Extents come from the machine (64 MiB each) and are
// sub-allocated here; large requests get an extent of their own. Memory is not backed until
// commit() is called for the range that is about to be touched.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "allocator/memory_stats.h"
#include "allocator/offset_allocator.h"
#include "runtime/base/mutex.h"
#include "runtime/driver/driver.h"

namespace onrt {

// A range of HBM that this process owns, and which 2 MiB steps of it are backed.
class PoolExtent {
 public:
  PoolExtent(Machine& machine, const HbmExtent& extent);

  const HbmExtent& extent() const { return extent_; }
  // Thread-safe. A range that is backed already costs one load per 64 steps of 2 MiB.
  Status commit(DeviceAddress address, uint64_t size) {
    const uint64_t first = (address - extent_.address) / kStepBytes;
    const uint64_t last = (address - extent_.address + size - 1) / kStepBytes;
    for (uint64_t step = first; step <= last; ++step) {
      if (!backed(step)) {
        return commit_steps(step, last);
      }
    }
    return ok_status();
  }

  // Set while the extent is sub-allocated; guarded by the pool's mutex.
  std::optional<OffsetAllocator> parts;

 private:
  static constexpr uint64_t kStepBytes = 2 << 20;

  bool backed(uint64_t step) const {
    // Acquire pairs with the release in commit_steps(): the backing is visible with the bit.
    return ((backed_[step / 64].load(std::memory_order_acquire) >> (step % 64)) & 1U) != 0;
  }
  Status commit_steps(uint64_t first, uint64_t last);

  Machine& machine_;  // outlives this
  HbmExtent extent_;
  std::unique_ptr<std::atomic<uint64_t>[]> backed_;
};

struct HbmRequest {
  uint64_t size = 0;
  uint64_t alignment = 64;
  MemoryCategory category = MemoryCategory::kTensors;
  int core = 0;        // logical core that the bytes are accounted to
  uint32_t model = 0;  // and the model, if any
};

// A plain value: whoever holds it frees it, once, in the pool it came from.
struct HbmBlock {
  PoolExtent* extent = nullptr;
  DeviceAddress address = 0;
  uint64_t size = 0;  // at least what was asked
  OffsetAllocator::Block part;
  MemoryCategory category = MemoryCategory::kTensors;
  int core = 0;
  uint32_t model = 0;

  explicit operator bool() const { return extent != nullptr; }
  // Must succeed for a range before a DMA, a mapping or a program touches it.
  Status commit(uint64_t offset, uint64_t bytes) const {
    return extent->commit(address + offset, bytes);
  }
};

// Thread-safe. The destructor gives every extent back.
class HbmPool {
 public:
  static constexpr uint64_t kExtentBytes = 64ULL << 20;
  static constexpr uint64_t kLargeBytes = 32ULL << 20;  // from here on: an extent of its own
  static constexpr uint64_t kKeptBytes = 128ULL << 20;  // empty extents kept for the next request
  static constexpr uint64_t kGranule = 64;

  // `table_folder`: where the memory table is written when memory runs out.
  HbmPool(Machine& machine, const Context& context, HbmId hbm, std::string table_folder = "/tmp");
  ~HbmPool();
  HbmPool(const HbmPool&) = delete;
  HbmPool& operator=(const HbmPool&) = delete;

  const HbmId& hbm() const { return hbm_; }

  // NRT_RESOURCE names size, usage, device and core; the memory table goes to the log.
  Result<HbmBlock> allocate(const HbmRequest& request);
  void free(const HbmBlock& block);

  void name_model(uint32_t model, const std::string& name);
  void forget_model(uint32_t model);

  MemoryUsage usage_of_core(int core) const;
  MemoryUsage usage() const;
  uint64_t limit_bytes() const { return limit_; }
  // Bytes held from the machine, empty extents included. For tests.
  uint64_t extent_bytes() const;
  Status check_invariants() const;
  std::string memory_table() const;

 private:
  using Extents = std::list<std::unique_ptr<PoolExtent>>;

  Result<HbmBlock> take(const HbmRequest& request) ONRT_REQUIRES(mutex_);
  Result<HbmBlock> take_part(const HbmRequest& request) ONRT_REQUIRES(mutex_);
  Result<HbmBlock> take_whole(const HbmRequest& request) ONRT_REQUIRES(mutex_);
  std::optional<HbmBlock> part_of(PoolExtent& extent, const HbmRequest& request);
  Result<PoolExtent*> new_extent(uint64_t size, uint64_t alignment) ONRT_REQUIRES(mutex_);
  PoolExtent* reuse_kept(uint64_t size, uint64_t alignment) ONRT_REQUIRES(mutex_);
  void keep_or_release(PoolExtent* extent) ONRT_REQUIRES(mutex_);
  void release_kept(uint64_t keep_bytes) ONRT_REQUIRES(mutex_);
  void give_back(const PoolExtent& extent) ONRT_REQUIRES(mutex_);
  void account(const HbmBlock& block, int64_t bytes);
  Status out_of_memory(const HbmRequest& request, const Status& reason);
  void log_dev_mem(const std::string& failure) const;
  void log_dev_mem_usage_table(const std::string& table) const;

  Machine& machine_;        // outlives this
  const Context& context_;  // outlives this
  const HbmId hbm_;
  const std::string table_folder_;
  uint64_t limit_ = 0;
  std::atomic<bool> account_works_{true};

  mutable Mutex mutex_;
  Extents busy_ ONRT_GUARDED_BY(mutex_);
  Extents kept_ ONRT_GUARDED_BY(mutex_);  // empty, oldest first
  uint64_t kept_bytes_ ONRT_GUARDED_BY(mutex_) = 0;
  PoolExtent* latest_ ONRT_GUARDED_BY(mutex_) = nullptr;  // where the last part was found
  MemoryLedger ledger_ ONRT_GUARDED_BY(mutex_);
};

// Owner of one block. `pool` outlives it unless abandon() is called.
class HbmMemory {
 public:
  HbmMemory() = default;
  HbmMemory(HbmPool& pool, const HbmBlock& block) : pool_(&pool), block_(block) {}
  HbmMemory(HbmMemory&& other) noexcept : pool_(other.pool_), block_(other.block_) {
    other.abandon();
  }
  HbmMemory& operator=(HbmMemory&& other) noexcept {
    if (this != &other) {
      reset();
      pool_ = other.pool_;
      block_ = other.block_;
      other.abandon();
    }
    return *this;
  }
  ~HbmMemory() { reset(); }

  static Result<HbmMemory> allocate(HbmPool& pool, const HbmRequest& request) {
    ONRT_ASSIGN_OR_RETURN(const HbmBlock block, pool.allocate(request));
    return HbmMemory(pool, block);
  }
  explicit operator bool() const { return static_cast<bool>(block_); }
  const HbmBlock& block() const { return block_; }
  void reset() {
    if (block_) {
      pool_->free(block_);
    }
    abandon();
  }
  void abandon() {
    pool_ = nullptr;
    block_ = {};
  }

 private:
  HbmPool* pool_ = nullptr;
  HbmBlock block_;
};

}  // namespace onrt
