// SPDX-License-Identifier: Apache-2.0
// The shared scratchpad of one core: programs of a core run one after another, so they share one
// range that is as large as the largest of them needs.
#pragma once

#include <cstdint>
#include <map>

#include "allocator/hbm_pool.h"

namespace onrt {

// Thread-compatible: the owner holds the core's execution lock, because the range moves when it
// grows. Its contents do not outlive an execution.
class Scratchpad {
 public:
  Scratchpad(HbmPool& pool, int core) : pool_(pool), core_(core) {}

  // Makes room for a model that needs `bytes` (0 is fine). Fails without a change.
  Status reserve(uint32_t model, uint64_t bytes);
  // Forgets the model's need and shrinks to the largest that is left.
  void release(uint32_t model);

  DeviceAddress address() const { return memory_ ? memory_.block().address : 0; }
  uint64_t size() const { return memory_ ? memory_.block().size : 0; }

 private:
  uint64_t largest_need() const;
  Status resize(uint64_t bytes);

  HbmPool& pool_;  // outlives this
  const int core_;
  std::map<uint32_t, uint64_t> needs_;
  HbmMemory memory_;
};

}  // namespace onrt
