// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/dma_mover.h"

#include <time.h>

#include <algorithm>

#include "runtime/base/format.h"

namespace onrt {
namespace {

// Spreads threads over rings.
size_t thread_number() {
  static std::atomic<size_t> next_number{0};
  static thread_local const size_t kNumber = next_number.fetch_add(1, std::memory_order_relaxed);
  return kNumber;
}

// steady_clock to a few milliseconds, at a fifth of its cost: small transfers take less than 1 us.
std::chrono::steady_clock::time_point coarse_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::steady_clock::time_point(std::chrono::seconds(now.tv_sec) +
                                               std::chrono::nanoseconds(now.tv_nsec));
}

struct Unlock {
  Mutex& mutex;
  ~Unlock() ONRT_NO_THREAD_SAFETY_ANALYSIS { mutex.unlock(); }
};

}  // namespace

DmaMover::~DmaMover() {
  for (Ring& ring : rings_) {
    MutexLock lock(ring.mutex);
    if (ring.made) {
      const Status status = machine_.destroy_dma_queue(ring.queue);
      if (!status.ok()) {
        ONRT_LOG(context_.log, Tdrv, Error, "DMA ring {} of device {} was not destroyed: {}",
                 ring.queue.queue, device_, status.message());
      }
    }
  }
}

Status DmaMover::make(Ring& ring) {
  ONRT_ASSIGN_OR_RETURN(ring.queue, machine_.create_dma_queue(device_, kRingDescriptors));
  ring.piece.reserve(kPieceDescriptors);
  ring.made = true;
  return ok_status();
}

// A ring that is free now, else the thread's own when it becomes free.
Status DmaMover::run(DeviceAddress source, DeviceAddress destination, uint64_t size,
                     uint32_t flags) ONRT_NO_THREAD_SAFETY_ANALYSIS {
  const size_t mine = thread_number() % kRings;
  size_t chosen = mine;
  bool locked = false;
  for (size_t i = 0; i < kRings && !locked; ++i) {
    chosen = (mine + i) % kRings;
    locked = rings_[chosen].mutex.try_lock();
  }
  if (!locked) {
    chosen = mine;
    rings_[chosen].mutex.lock();
  }
  const Unlock unlock{rings_[chosen].mutex};
  return run_on(rings_[chosen], source, destination, size, flags);
}

Status DmaMover::run_on(Ring& ring, DeviceAddress source, DeviceAddress destination, uint64_t size,
                        uint32_t flags) {
  if (!ring.made) {
    ONRT_RETURN_IF_ERROR(make(ring));
  }
  const auto deadline =
      coarse_now() + std::chrono::seconds(context_.settings.integer(Setting::kExecTimeout));
  const bool fill = (flags & kDmaFlagFill) != 0;
  while (size != 0) {
    ring.piece.clear();
    while (size != 0 && ring.piece.size() < kPieceDescriptors) {
      const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(size, kMaxDescriptorBytes));
      ring.piece.push_back({source, destination, bytes, flags});
      source += fill ? 0 : bytes;
      destination += bytes;
      size -= bytes;
    }
    ONRT_RETURN_IF_ERROR(machine_.dma_submit(ring.queue, ring.piece));
    ONRT_RETURN_IF_ERROR(machine_.dma_wait(ring.queue, deadline));
  }
  return ok_status();
}

Status DmaMover::write(DeviceAddress destination, const void* source, uint64_t size) {
  ONRT_ASSIGN_OR_RETURN(const DeviceAddress bus,
                        machine_.map_host(device_, const_cast<void*>(source), size));
  Status status = run(bus, destination, size, 0);
  const Status unmapped = machine_.unmap_host(device_, bus);
  return status.ok() ? unmapped : status;
}

Status DmaMover::read(DeviceAddress source, void* destination, uint64_t size) {
  ONRT_ASSIGN_OR_RETURN(const DeviceAddress bus, machine_.map_host(device_, destination, size));
  Status status = run(source, bus, size, 0);
  const Status unmapped = machine_.unmap_host(device_, bus);
  return status.ok() ? unmapped : status;
}

Status DmaMover::copy(DeviceAddress source, DeviceAddress destination, uint64_t size) {
  return run(source, destination, size, 0);
}

Status DmaMover::fill(DeviceAddress destination, uint8_t value, uint64_t size) {
  return run(0x0101010101010101ULL * value, destination, size, kDmaFlagFill);
}

}  // namespace onrt
