// SPDX-License-Identifier: Apache-2.0
// A DMA ring: descriptors are written to a ring of fixed size, the doorbell makes the engine walk
// them. The emulated engine runs on the thread that rings.
#pragma once

#include <span>
#include <vector>

#include "emulator/address_space.h"
#include "runtime/driver/driver.h"

namespace onrt::emu {

// Used by one thread at a time.
class DmaRing {
 public:
  // `descriptor_count` is a power of two.
  DmaRing(AddressSpace& space, int device, int descriptor_count, DeviceCounterRecord& counters);

  // NRT_QUEUE_FULL when the descriptors don't fit; nothing is submitted then.
  Status submit(std::span<const DmaDescriptor> descriptors);
  // The failure of what was submitted since the last call, if any.
  Status wait();

 private:
  // Neighbouring descriptors that continue each other, copied at once.
  struct Run {
    std::byte* destination = nullptr;
    const std::byte* source = nullptr;  // null: fill
    uint64_t pattern = 0;
    uint64_t size = 0;
  };

  void ring_doorbell();
  Status step(const DmaDescriptor& descriptor, Run* run);
  static bool continues(const Run& run, const Run& next);
  static void flush(Run* run);

  AddressSpace& space_;
  const int device_;
  DeviceCounterRecord& counters_;  // Borrowed from the machine file; outlives this
  std::vector<DmaDescriptor> ring_;
  uint64_t head_ = 0;  // next to execute
  uint64_t tail_ = 0;  // next to write
  ExtentCache source_cache_;
  ExtentCache destination_cache_;
  Status failure_;
};

}  // namespace onrt::emu
