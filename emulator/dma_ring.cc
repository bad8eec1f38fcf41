// SPDX-License-Identifier: Apache-2.0
#include "emulator/dma_ring.h"

#include <cstring>

#include "runtime/base/format.h"

namespace onrt::emu {
namespace {

// Bytes of `pattern` in memory order, repeated.
void fill(std::byte* destination, uint64_t pattern, uint64_t size) {
  const auto first = static_cast<unsigned char>(pattern & 0xff);
  if (pattern == 0x0101010101010101ULL * first) {
    std::memset(destination, first, size);
    return;
  }
  while (size >= sizeof(pattern)) {
    std::memcpy(destination, &pattern, sizeof(pattern));
    destination += sizeof(pattern);
    size -= sizeof(pattern);
  }
  std::memcpy(destination, &pattern, size);
}

bool overlap(const std::byte* a, const std::byte* b, uint64_t size) {
  return a < b + size && b < a + size;
}

}  // namespace

DmaRing::DmaRing(AddressSpace& space, int device, int descriptor_count,
                 DeviceCounterRecord& counters)
    : space_(space),
      device_(device),
      counters_(counters),
      ring_(static_cast<size_t>(descriptor_count)) {}

Status DmaRing::submit(std::span<const DmaDescriptor> descriptors) {
  const uint64_t room = ring_.size() - (tail_ - head_);
  if (descriptors.size() > room) {
    return Status(NRT_QUEUE_FULL, format("DMA ring of ND {} has room for {} descriptors, {} were "
                                         "submitted",
                                         device_, room, descriptors.size()));
  }
  for (const DmaDescriptor& descriptor : descriptors) {
    ring_[tail_++ & (ring_.size() - 1)] = descriptor;
  }
  ring_doorbell();
  return ok_status();
}

Status DmaRing::wait() { return std::exchange(failure_, ok_status()); }

void DmaRing::ring_doorbell() {
  uint64_t done = 0;
  uint64_t bytes = 0;
  Run run;
  for (; head_ != tail_; ++head_) {
    const DmaDescriptor& descriptor = ring_[head_ & (ring_.size() - 1)];
    Status status = step(descriptor, &run);
    if (!status.ok()) {
      if (failure_.ok()) {
        failure_ = std::move(status).annotate(format("DMA descriptor {} of ND {}", done, device_));
      }
      head_ = tail_;  // An engine that stops drops the rest of its ring.
      break;
    }
    ++done;
    bytes += descriptor.size;
  }
  flush(&run);
  add(counters_.dma_descriptors, done);
  add(counters_.dma_bytes, bytes);
}

Status DmaRing::step(const DmaDescriptor& descriptor, Run* run) {
  if (descriptor.size == 0 || descriptor.size > kMaxDescriptorBytes ||
      (descriptor.flags & ~kDmaFlagFill) != 0) {
    return Status(NRT_EXEC_HW_ERR_DMA_ABORT,
                  format("size {} and flags {:#x}: expected 1 to {} bytes and no unknown flag",
                         descriptor.size, descriptor.flags, kMaxDescriptorBytes));
  }
  const auto resolve = [&](DeviceAddress address, ExtentCache* cache) -> Result<std::byte*> {
    auto data = space_.resolve(device_, address, descriptor.size, cache);
    if (!data.ok() && data.status().code() == NRT_INVALID) {
      return Status(NRT_EXEC_HW_ERR_DMA_ABORT, std::string(data.status().message()));
    }
    return data;
  };
  Run next;
  next.size = descriptor.size;
  ONRT_ASSIGN_OR_RETURN(next.destination, resolve(descriptor.destination, &destination_cache_));
  if ((descriptor.flags & kDmaFlagFill) != 0) {
    next.pattern = descriptor.source;
  } else {
    ONRT_ASSIGN_OR_RETURN(next.source, resolve(descriptor.source, &source_cache_));
  }
  if (continues(*run, next)) {
    run->size += next.size;
  } else {
    flush(run);
    *run = next;
  }
  return ok_status();
}

bool DmaRing::continues(const Run& run, const Run& next) {
  if (run.size == 0 || next.destination != run.destination + run.size) {
    return false;
  }
  if (run.source == nullptr || next.source == nullptr) {
    return run.source == next.source && run.pattern == next.pattern &&
           run.size % sizeof(run.pattern) == 0;
  }
  return next.source == run.source + run.size &&
         !overlap(run.destination, run.source, run.size + next.size);
}

void DmaRing::flush(Run* run) {
  if (run->size == 0) {
    return;
  }
  if (run->source == nullptr) {
    fill(run->destination, run->pattern, run->size);
  } else if (overlap(run->destination, run->source, run->size)) {
    std::memmove(run->destination, run->source, run->size);
  } else {
    std::memcpy(run->destination, run->source, run->size);
  }
  run->size = 0;
}

}  // namespace onrt::emu
