// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/constant_store.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace onrt {
namespace {

// Mixes 8 bytes at a time; only for finding candidates, so it needs to be quick, not strong.
uint64_t quick_hash(std::span<const std::byte> bytes) {
  uint64_t hash = 0x9E3779B97F4A7C15ULL ^ bytes.size();
  for (size_t at = 0; at < bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<size_t>(8, bytes.size() - at));
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDULL;
    hash ^= hash >> 32;
  }
  return hash;
}

constexpr size_t kCompareBytes = 1 << 20;

}  // namespace

Result<bool> ConstantStore::equal(const HbmBlock& block, std::span<const std::byte> bytes,
                                  DmaMover& dma) {
  std::vector<std::byte> found(std::min(kCompareBytes, bytes.size()));
  for (size_t at = 0; at < bytes.size(); at += kCompareBytes) {
    const size_t size = std::min(kCompareBytes, bytes.size() - at);
    ONRT_RETURN_IF_ERROR(dma.read(block.address + at, found.data(), size));
    if (std::memcmp(found.data(), bytes.data() + at, size) != 0) {
      return false;
    }
  }
  return true;
}

Result<std::shared_ptr<SharedConstants>> ConstantStore::place(std::span<const std::byte> bytes,
                                                              HbmPool& pool, DmaMover& dma,
                                                              HbmRequest request) {
  if (bytes.empty()) {
    return std::shared_ptr<SharedConstants>();
  }
  const Key key{pool.hbm().device, pool.hbm().stack, bytes.size(), quick_hash(bytes)};
  // Held during the copy: a second load of the same model waits and then shares.
  MutexLock lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) { return entry.second.expired(); });
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    if (auto shared = found->second.lock()) {
      ONRT_ASSIGN_OR_RETURN(const bool same, equal(shared->memory.block(), bytes, dma));
      if (same) {
        return shared;
      }
    }
  }
  request.size = bytes.size();
  request.category = MemoryCategory::kConstants;
  auto placed = std::make_shared<SharedConstants>();
  ONRT_ASSIGN_OR_RETURN(placed->memory, HbmMemory::allocate(pool, request));
  ONRT_RETURN_IF_ERROR(placed->memory.block().commit(0, bytes.size()));
  ONRT_RETURN_IF_ERROR(dma.write(placed->memory.block().address, bytes.data(), bytes.size()));
  entries_.insert_or_assign(key, placed);
  return placed;
}

}  // namespace onrt
