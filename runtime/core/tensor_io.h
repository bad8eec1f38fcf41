// SPDX-License-Identifier: Apache-2.0
// Reading, writing, filling and copying tensors. Device memory is reached by DMA rings only.
#pragma once

#include <span>

#include "runtime/core/tensor.h"

namespace onrt {

// kWait: wait until no execution uses the tensor. kUnsafe: the caller knows that none does.
enum class Blocking : uint8_t { kWait, kUnsafe };

// All check the range before anything is touched: NRT_INVALID names the tensor. Size 0 is allowed.
Status read_tensor(Session& session, const Tensor& tensor, void* buffer, uint64_t offset,
                   uint64_t size, Blocking blocking = Blocking::kWait);
Status write_tensor(Session& session, Tensor& tensor, const void* buffer, uint64_t offset,
                    uint64_t size, Blocking blocking = Blocking::kWait);
Status fill_tensor(Session& session, Tensor& tensor, uint64_t offset, uint8_t value, uint64_t size);

// Device tensors must be on the same HBM stack; ranges of one storage must not overlap.
Status copy_tensor(Session& session, const Tensor& source, uint64_t source_offset,
                   Tensor& destination, uint64_t destination_offset, uint64_t size);

// One element of a batch.
struct TensorTransfer {
  Tensor* tensor = nullptr;
  uint64_t offset = 0;
  uint64_t size = 0;
  void* buffer = nullptr;
};

// Every element is checked before the first is done. A device error leaves the rest undone.
Status read_batch(Session& session, std::span<const TensorTransfer> batch, Blocking blocking);
Status write_batch(Session& session, std::span<const TensorTransfer> batch, Blocking blocking);

}  // namespace onrt
