// SPDX-License-Identifier: Apache-2.0
#include "allocator/scratchpad.h"

#include <algorithm>

namespace onrt {
namespace {

constexpr uint64_t kAlignment = 4096;

}  // namespace

uint64_t Scratchpad::largest_need() const {
  uint64_t largest = 0;
  for (const auto& [model, bytes] : needs_) {
    largest = std::max(largest, bytes);
  }
  return largest;
}

Status Scratchpad::reserve(uint32_t model, uint64_t bytes) {
  if (bytes > size()) {
    ONRT_RETURN_IF_ERROR(resize(bytes));
  }
  needs_[model] = bytes;
  return ok_status();
}

void Scratchpad::release(uint32_t model) {
  needs_.erase(model);
  const uint64_t largest = largest_need();
  if (largest == 0) {
    memory_.reset();
  } else if ((largest + kAlignment - 1) / kAlignment * kAlignment < size()) {
    // When the smaller range can't be had the larger one still serves.
    const Status kept = resize(largest);
    static_cast<void>(kept.ok());
  }
}

// The new range is taken before the old one is given back, so a failure leaves the core usable.
Status Scratchpad::resize(uint64_t bytes) {
  HbmRequest request;
  request.size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  request.alignment = kAlignment;
  request.category = MemoryCategory::kSharedScratchpad;
  request.core = core_;
  ONRT_ASSIGN_OR_RETURN(HbmMemory grown, HbmMemory::allocate(pool_, request));
  ONRT_RETURN_IF_ERROR(grown.block().commit(0, grown.block().size));
  memory_ = std::move(grown);
  return ok_status();
}

}  // namespace onrt
