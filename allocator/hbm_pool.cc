// SPDX-License-Identifier: Apache-2.0
#include "allocator/hbm_pool.h"

#include <algorithm>
#include <array>

#include "runtime/base/format.h"

namespace onrt {
namespace {

constexpr uint64_t kPageBytes = 4096;  // the machine's unit
constexpr uint64_t kExtentAlignment = 2 << 20;

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

PoolExtent::PoolExtent(Machine& machine, const HbmExtent& extent)
    : machine_(machine), extent_(extent) {
  const uint64_t steps = (extent.size + kStepBytes - 1) / kStepBytes;
  backed_ = std::make_unique<std::atomic<uint64_t>[]>((steps + 63) / 64);
}

// Backs each run of missing steps with one call. Two threads may do the same run: commit is
// idempotent.
Status PoolExtent::commit_steps(uint64_t first, uint64_t last) {
  for (uint64_t step = first; step <= last; ++step) {
    if (backed(step)) {
      continue;
    }
    uint64_t end = step + 1;
    while (end <= last && !backed(end)) {
      ++end;
    }
    const uint64_t begin_byte = step * kStepBytes;
    const uint64_t end_byte = std::min(end * kStepBytes, extent_.size);
    ONRT_RETURN_IF_ERROR(
        machine_.commit(extent_.hbm, extent_.address + begin_byte, end_byte - begin_byte));
    for (uint64_t done = step; done < end; ++done) {
      backed_[done / 64].fetch_or(1ULL << (done % 64), std::memory_order_release);
    }
    step = end - 1;
  }
  return ok_status();
}

HbmPool::HbmPool(Machine& machine, const Context& context, HbmId hbm, std::string table_folder)
    : machine_(machine), context_(context), hbm_(hbm), table_folder_(std::move(table_folder)) {
  const auto usage = machine_.hbm_usage(hbm_);
  limit_ = usage.ok() ? usage->limit : machine_.info().hbm_bytes;
}

HbmPool::~HbmPool() {
  MutexLock lock(mutex_);
  release_kept(0);
  for (const auto& extent : busy_) {
    give_back(*extent);
  }
}

Result<HbmBlock> HbmPool::allocate(const HbmRequest& request) {
  Result<HbmBlock> block = Status(NRT_INVALID, "a device allocation of size 0");
  if (request.size == 0) {
    return block;
  }
  {
    MutexLock lock(mutex_);
    block = request.size > limit_ ? Status(NRT_RESOURCE, "larger than the memory of the core")
                                  : take(request);
    if (block.ok()) {
      ledger_.add(request.core, request.model, request.category, static_cast<int64_t>(block->size));
    }
  }
  if (!block.ok()) {
    return block.status().code() == NRT_RESOURCE ? out_of_memory(request, block.status())
                                                 : block.status();
  }
  account(*block, static_cast<int64_t>(block->size));
  return block;
}

Result<HbmBlock> HbmPool::take(const HbmRequest& request) {
  Result<HbmBlock> block = request.size >= kLargeBytes ? take_whole(request) : take_part(request);
  if (block.ok()) {
    block->category = request.category;
    block->core = request.core;
    block->model = request.model;
  }
  return block;
}

Result<HbmBlock> HbmPool::take_part(const HbmRequest& request) {
  if (latest_ != nullptr) {
    if (auto block = part_of(*latest_, request)) {
      return *block;
    }
  }
  for (const auto& extent : busy_) {
    if (extent->parts && extent.get() != latest_) {
      if (auto block = part_of(*extent, request)) {
        latest_ = extent.get();
        return *block;
      }
    }
  }
  const uint64_t alignment = std::max(request.alignment, kExtentAlignment);
  PoolExtent* extent = reuse_kept(kExtentBytes, alignment);
  if (extent == nullptr) {
    auto made = new_extent(kExtentBytes, alignment);
    // Nearly full: an extent of just the size that is needed.
    if (!made.ok() && made.status().code() == NRT_RESOURCE) {
      made =
          new_extent(round_up(request.size, kPageBytes), std::max(request.alignment, kPageBytes));
    }
    if (!made.ok()) {
      return std::move(made).status();
    }
    extent = *made;
  }
  ONRT_ASSIGN_OR_RETURN(OffsetAllocator parts,
                        OffsetAllocator::create(extent->extent().size, kGranule));
  extent->parts = std::move(parts);
  latest_ = extent;
  auto block = part_of(*extent, request);
  if (!block) {
    return Status(NRT_FAILURE, format("internal error: {} bytes do not fit an empty extent of {}",
                                      request.size, extent->extent().size));
  }
  return *block;
}

std::optional<HbmBlock> HbmPool::part_of(PoolExtent& extent, const HbmRequest& request) {
  const auto part = extent.parts->allocate(request.size, std::max(request.alignment, kGranule));
  if (!part) {
    return std::nullopt;
  }
  HbmBlock block;
  block.extent = &extent;
  block.address = extent.extent().address + part->offset;
  block.size = part->size;
  block.part = *part;
  return block;
}

Result<HbmBlock> HbmPool::take_whole(const HbmRequest& request) {
  const uint64_t size = round_up(request.size, kPageBytes);
  const uint64_t alignment = std::max(request.alignment, kExtentAlignment);
  PoolExtent* extent = reuse_kept(size, alignment);
  if (extent == nullptr) {
    auto made = new_extent(size, alignment);
    if (!made.ok() && made.status().code() == NRT_RESOURCE) {
      made = new_extent(size, std::max(request.alignment, kPageBytes));
    }
    if (!made.ok()) {
      return std::move(made).status();
    }
    extent = *made;
  }
  HbmBlock block;
  block.extent = extent;
  block.address = extent->extent().address;
  block.size = extent->extent().size;
  return block;
}

// Asks the machine; when it has no room, gives it the kept extents back and asks once more.
Result<PoolExtent*> HbmPool::new_extent(uint64_t size, uint64_t alignment) {
  auto extent = machine_.allocate_extent(hbm_, size, alignment);
  if (!extent.ok() && extent.status().code() == NRT_RESOURCE && !kept_.empty()) {
    release_kept(0);
    extent = machine_.allocate_extent(hbm_, size, alignment);
  }
  if (!extent.ok()) {
    return std::move(extent).status();
  }
  busy_.push_back(std::make_unique<PoolExtent>(machine_, *extent));
  return busy_.back().get();
}

// A kept extent that is at most an eighth larger than needed.
PoolExtent* HbmPool::reuse_kept(uint64_t size, uint64_t alignment) {
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    const HbmExtent& extent = (*it)->extent();
    if (extent.size >= size && extent.size <= size + size / 8 && extent.address % alignment == 0) {
      kept_bytes_ -= extent.size;
      busy_.splice(busy_.end(), kept_, it);
      return busy_.back().get();
    }
  }
  return nullptr;
}

void HbmPool::free(const HbmBlock& block) {
  {
    MutexLock lock(mutex_);
    if (block.extent->parts) {
      if (!block.extent->parts->free(block.part)) {
        ONRT_LOG(context_.log, Tdrv, Error, "internal error: block at {:#x} freed twice",
                 block.address);
        return;
      }
      if (block.extent->parts->empty()) {
        keep_or_release(block.extent);
      }
    } else {
      keep_or_release(block.extent);
    }
    ledger_.add(block.core, block.model, block.category, -static_cast<int64_t>(block.size));
  }
  account(block, -static_cast<int64_t>(block.size));
}

void HbmPool::keep_or_release(PoolExtent* extent) {
  const auto it = std::find_if(busy_.begin(), busy_.end(),
                               [&](const auto& candidate) { return candidate.get() == extent; });
  if (latest_ == extent) {
    latest_ = nullptr;
  }
  extent->parts.reset();
  kept_bytes_ += extent->extent().size;
  kept_.splice(kept_.end(), busy_, it);
  release_kept(kKeptBytes);
}

// Gives the oldest kept extents back until at most `keep_bytes` are kept.
void HbmPool::release_kept(uint64_t keep_bytes) {
  while (kept_bytes_ > keep_bytes && !kept_.empty()) {
    give_back(*kept_.front());
    kept_bytes_ -= kept_.front()->extent().size;
    kept_.pop_front();
  }
}

void HbmPool::give_back(const PoolExtent& extent) {
  const Status status = machine_.free_extent(extent.extent());
  if (!status.ok()) {
    ONRT_LOG(context_.log, Tdrv, Error, "HBM extent at {:#x} can't be freed: {}",
             extent.extent().address, status.message());
  }
}

// Tools of other processes see the machine's counters; a backend may have none.
void HbmPool::account(const HbmBlock& block, int64_t bytes) {
  if (!account_works_.load(std::memory_order_relaxed)) {
    return;
  }
  const Status status = machine_.account(block.core, block.category, bytes);
  if (!status.ok() && account_works_.exchange(false)) {
    ONRT_LOG(context_.log, Tdrv, Info, "memory is not reported to tools: {}", status.message());
  }
}

Status HbmPool::out_of_memory(const HbmRequest& request, const Status& reason) {
  const int cores = std::max(1, machine_.info().logical_cores_per_device());
  const std::string place = format("ND {}:NC {}", hbm_.device, request.core % cores);
  const std::string size = format_table_bytes(request.size);
  const std::string_view usage = memory_category_name(request.category);
  if (context_.settings.flag(Setting::kOomLog)) {
    const std::string failure =
        format("Failed to allocate {} (alignment: {}, usage: {}) on {}", size,
               request.alignment <= kPageBytes ? "none" : format_table_bytes(request.alignment),
               usage, place);
    const std::string table = format("{}\nCurrent utilization of {}:\n{}", memory_table(), place,
                                     usage_list(usage_of_core(request.core)));
    log_dev_mem(failure);
    log_dev_mem_usage_table(table);
    if (!write_memory_table(table_folder_, hbm_, failure + "\n\n" + table)) {
      ONRT_LOG(context_.log, Tdrv, Info, "the memory table was not written to {}", table_folder_);
    }
  }
  return Status(NRT_RESOURCE, format("Failed to allocate {} ({} bytes) (usage: {}) on {}: {}", size,
                                     request.size, usage, place, reason.message()));
}

// The names of these two are what users search the log for.
void HbmPool::log_dev_mem(const std::string& failure) const {
  ONRT_LOG(context_.log, Tdrv, Error, "{}", failure);
}
void HbmPool::log_dev_mem_usage_table(const std::string& table) const {
  if (context_.log->enabled(LogComponent::kTdrv, LogLevel::kError)) {
    context_.log->write_table(LogComponent::kTdrv, LogLevel::kError, __func__,
                              format("Displaying Current Memory Utilization:\n{}", table));
  }
}

void HbmPool::name_model(uint32_t model, const std::string& name) {
  MutexLock lock(mutex_);
  ledger_.name_model(model, name);
}

void HbmPool::forget_model(uint32_t model) {
  MutexLock lock(mutex_);
  ledger_.forget_model(model);
}

MemoryUsage HbmPool::usage_of_core(int core) const {
  MutexLock lock(mutex_);
  return ledger_.usage_of_core(core);
}

MemoryUsage HbmPool::usage() const {
  MutexLock lock(mutex_);
  return ledger_.usage();
}

uint64_t HbmPool::extent_bytes() const {
  MutexLock lock(mutex_);
  uint64_t sum = kept_bytes_;
  for (const auto& extent : busy_) {
    sum += extent->extent().size;
  }
  return sum;
}

std::string HbmPool::memory_table() const {
  const int cores = std::max(1, machine_.info().logical_cores_per_device());
  MutexLock lock(mutex_);
  return ledger_.table(hbm_.device, cores);
}

Status HbmPool::check_invariants() const {
  MutexLock lock(mutex_);
  uint64_t used = 0;
  for (const auto& extent : busy_) {
    if (extent->parts) {
      ONRT_RETURN_IF_ERROR(extent->parts->check_invariants());
      if (extent->parts->empty()) {
        return Status(NRT_FAILURE,
                      format("empty extent at {:#x} is not kept", extent->extent().address));
      }
    }
    used += extent->parts ? extent->parts->used_bytes() : extent->extent().size;
  }
  uint64_t kept = 0;
  for (const auto& extent : kept_) {
    kept += extent->extent().size;
  }
  if (used != ledger_.usage().total() || kept != kept_bytes_ || kept > kKeptBytes) {
    return Status(NRT_FAILURE, format("{} bytes used, {} kept; the books say {} and {}", used, kept,
                                      ledger_.usage().total(), kept_bytes_));
  }
  return ok_status();
}

}  // namespace onrt
