// SPDX-License-Identifier: Apache-2.0
// Constants of loaded models: the same bytes on the same HBM stack are there once.
#pragma once

#include <map>
#include <memory>
#include <span>

#include "allocator/hbm_pool.h"
#include "runtime/base/mutex.h"
#include "runtime/core/dma_mover.h"

namespace onrt {

struct SharedConstants {
  HbmMemory memory;
};

// Thread-safe.
class ConstantStore {
 public:
  // Finds the bytes on the pool's stack, or copies them there. `request` says whose they are.
  // Empty constants are null.
  Result<std::shared_ptr<SharedConstants>> place(std::span<const std::byte> bytes, HbmPool& pool,
                                                 DmaMover& dma, HbmRequest request);

 private:
  struct Key {
    int device;
    int stack;
    uint64_t size;
    uint64_t hash;  // finds a candidate; the bytes are compared
    auto operator<=>(const Key&) const = default;
  };

  static Result<bool> equal(const HbmBlock& block, std::span<const std::byte> bytes, DmaMover& dma);

  Mutex mutex_;
  // Expired entries go when the next constants are placed.
  std::map<Key, std::weak_ptr<SharedConstants>> entries_ ONRT_GUARDED_BY(mutex_);
};

}  // namespace onrt
