// SPDX-License-Identifier: Apache-2.0
// Where the tensors of one execution are, by io slot of the model.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/hbm_pool.h"
#include "runtime/core/handle.h"
#include "runtime/driver/driver.h"

namespace onrt {

class Tensor;
class TensorStorage;

// Reused from execution to execution, so that the warm path allocates nothing. Thread-compatible.
struct IoTable {
  // A tensor in host memory, which has a copy in HBM for the time of the execution.
  struct Staged {
    size_t slot = 0;
    std::byte* host = nullptr;
    HbmMemory memory;
  };

  std::vector<Tensor*> tensors;  // good while binding; the caller may free one during execution
  std::vector<HandleRef<Tensor>> outputs;
  std::vector<DeviceAddress> addresses;
  std::vector<uint64_t> bytes;
  std::vector<TensorStorage*> in_use;  // marked and retained until release()
  std::vector<Staged> staged;

  void prepare(size_t slots) {
    tensors.assign(slots, nullptr);
    outputs.clear();
    addresses.assign(slots, 0);
    bytes.assign(slots, 0);
  }
  // Ends every use; tensors may be freed and written again.
  void release();
};

}  // namespace onrt
