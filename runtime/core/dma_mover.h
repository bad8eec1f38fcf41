// SPDX-License-Identifier: Apache-2.0
// Moves bytes to, from and within one device by DMA rings.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/driver/driver.h"

namespace onrt {

// Thread-safe: a few rings, each used by one thread at a time; they are made at first use. The
// caller has committed every range of HBM.
class DmaMover {
 public:
  DmaMover(Machine& machine, const Context& context, int device)
      : machine_(machine), context_(context), device_(device) {}
  ~DmaMover();
  DmaMover(const DmaMover&) = delete;
  DmaMover& operator=(const DmaMover&) = delete;

  // NRT_EXEC_HW_ERR_DMA_ABORT when a descriptor fails; NRT_TIMEOUT after NEURON_RT_EXEC_TIMEOUT.
  // The contents of the destination are then undefined.
  Status write(DeviceAddress destination, const void* source, uint64_t size);
  Status read(DeviceAddress source, void* destination, uint64_t size);
  Status copy(DeviceAddress source, DeviceAddress destination, uint64_t size);
  Status fill(DeviceAddress destination, uint8_t value, uint64_t size);

 private:
  static constexpr int kRings = 4;
  static constexpr int kRingDescriptors = 1024;
  static constexpr size_t kPieceDescriptors = 512;  // submitted at once: 32 MiB

  struct Ring {
    Mutex mutex;
    bool made ONRT_GUARDED_BY(mutex) = false;
    DmaQueueId queue ONRT_GUARDED_BY(mutex);
    std::vector<DmaDescriptor> piece ONRT_GUARDED_BY(mutex);
  };

  Status run(DeviceAddress source, DeviceAddress destination, uint64_t size, uint32_t flags);
  Status run_on(Ring& ring, DeviceAddress source, DeviceAddress destination, uint64_t size,
                uint32_t flags) ONRT_REQUIRES(ring.mutex);
  Status make(Ring& ring) ONRT_REQUIRES(ring.mutex);

  Machine& machine_;        // outlives this
  const Context& context_;  // outlives this
  const int device_;
  std::array<Ring, kRings> rings_;
};

}  // namespace onrt
