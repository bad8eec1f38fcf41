// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/tensor_io.h"

#include <cstring>

#include "runtime/base/format.h"

namespace onrt {
namespace {

Status check(const Session& session, const Tensor& tensor, const char* what, const void* buffer,
             uint64_t offset, uint64_t size) {
  ONRT_RETURN_IF_ERROR(tensor.check_usable(session));
  ONRT_RETURN_IF_ERROR(tensor.check_range(what, offset, size));
  if (buffer == nullptr && size != 0) {
    return Status(NRT_INVALID,
                  format("{}: {} of {} bytes with a NULL buffer", tensor.label(), what, size));
  }
  return ok_status();
}

Status commit(const Tensor& tensor, uint64_t offset, uint64_t size) {
  return tensor.storage().block().commit(tensor.offset() + offset, size);
}

Status named(Status status, const Tensor& tensor) {
  return status.ok() ? std::move(status) : std::move(status).annotate(tensor.label());
}

// After the checks. `size` may be 0.
Status do_read(const Tensor& tensor, void* buffer, uint64_t offset, uint64_t size) {
  if (size == 0) {
    return ok_status();
  }
  if (!tensor.storage().is_device()) {
    std::memcpy(buffer, tensor.host() + offset, size);
    return ok_status();
  }
  Status status = commit(tensor, offset, size);
  if (status.ok()) {
    status = tensor.storage().core().device.dma.read(tensor.address() + offset, buffer, size);
  }
  return named(std::move(status), tensor);
}

Status do_write(Tensor& tensor, const void* buffer, uint64_t offset, uint64_t size) {
  if (size == 0) {
    return ok_status();
  }
  if (!tensor.storage().is_device()) {
    std::memcpy(tensor.host() + offset, buffer, size);
    return ok_status();
  }
  Status status = commit(tensor, offset, size);
  if (status.ok()) {
    status = tensor.storage().core().device.dma.write(tensor.address() + offset, buffer, size);
  }
  return named(std::move(status), tensor);
}

Status check_batch(const Session& session, std::span<const TensorTransfer> batch,
                   const char* what) {
  for (size_t i = 0; i < batch.size(); ++i) {
    const TensorTransfer& item = batch[i];
    Status status = check(session, *item.tensor, what, item.buffer, item.offset, item.size);
    if (!status.ok()) {
      return std::move(status).annotate(format("operation {} of the batch", i));
    }
  }
  return ok_status();
}

void wait_all(std::span<const TensorTransfer> batch, Blocking blocking) {
  if (blocking == Blocking::kWait) {
    for (const TensorTransfer& item : batch) {
      item.tensor->storage().wait_idle();
    }
  }
}

bool overlap(uint64_t a, uint64_t b, uint64_t size) { return a < b ? b - a < size : a - b < size; }

Status check_copy(const Tensor& source, uint64_t source_offset, const Tensor& destination,
                  uint64_t destination_offset, uint64_t size) {
  const TensorStorage& from = source.storage();
  const TensorStorage& to = destination.storage();
  if (from.is_device() && to.is_device() && !(from.hbm() == to.hbm())) {
    return Status(NRT_INVALID,
                  format("copy from {} on device {} HBM {} to {} on device {} HBM {}: device "
                         "tensors must be on the same HBM",
                         source.label(), from.hbm().device, from.hbm().stack, destination.label(),
                         to.hbm().device, to.hbm().stack));
  }
  if (&from == &to && size != 0 &&
      overlap(source.offset() + source_offset, destination.offset() + destination_offset, size)) {
    return Status(NRT_INVALID, format("copy of {} bytes from {} at {} to {} at {}: the ranges "
                                      "overlap",
                                      size, source.label(), source_offset, destination.label(),
                                      destination_offset));
  }
  return ok_status();
}

}  // namespace

Status read_tensor(Session& session, const Tensor& tensor, void* buffer, uint64_t offset,
                   uint64_t size, Blocking blocking) {
  ONRT_RETURN_IF_ERROR(check(session, tensor, "read", buffer, offset, size));
  if (blocking == Blocking::kWait) {
    tensor.storage().wait_idle();
  }
  return do_read(tensor, buffer, offset, size);
}

Status write_tensor(Session& session, Tensor& tensor, const void* buffer, uint64_t offset,
                    uint64_t size, Blocking blocking) {
  ONRT_RETURN_IF_ERROR(check(session, tensor, "write", buffer, offset, size));
  if (blocking == Blocking::kWait) {
    tensor.storage().wait_idle();
  }
  return do_write(tensor, buffer, offset, size);
}

Status fill_tensor(Session& session, Tensor& tensor, uint64_t offset, uint8_t value,
                   uint64_t size) {
  ONRT_RETURN_IF_ERROR(tensor.check_usable(session));
  ONRT_RETURN_IF_ERROR(tensor.check_range("memset", offset, size));
  if (size == 0) {
    return ok_status();
  }
  tensor.storage().wait_idle();
  if (!tensor.storage().is_device()) {
    std::memset(tensor.host() + offset, value, size);
    return ok_status();
  }
  Status status = commit(tensor, offset, size);
  if (status.ok()) {
    status = tensor.storage().core().device.dma.fill(tensor.address() + offset, value, size);
  }
  return named(std::move(status), tensor);
}

Status copy_tensor(Session& session, const Tensor& source, uint64_t source_offset,
                   Tensor& destination, uint64_t destination_offset, uint64_t size) {
  ONRT_RETURN_IF_ERROR(source.check_usable(session));
  ONRT_RETURN_IF_ERROR(destination.check_usable(session));
  ONRT_RETURN_IF_ERROR(source.check_range("copy", source_offset, size));
  ONRT_RETURN_IF_ERROR(destination.check_range("copy", destination_offset, size));
  ONRT_RETURN_IF_ERROR(check_copy(source, source_offset, destination, destination_offset, size));
  source.storage().wait_idle();
  destination.storage().wait_idle();
  if (!source.storage().is_device()) {
    return do_write(destination, source.host() + source_offset, destination_offset, size);
  }
  if (!destination.storage().is_device()) {
    return do_read(source, destination.host() + destination_offset, source_offset, size);
  }
  if (size == 0) {
    return ok_status();
  }
  ONRT_RETURN_IF_ERROR(named(commit(source, source_offset, size), source));
  ONRT_RETURN_IF_ERROR(named(commit(destination, destination_offset, size), destination));
  return named(
      destination.storage().core().device.dma.copy(
          source.address() + source_offset, destination.address() + destination_offset, size),
      destination);
}

Status read_batch(Session& session, std::span<const TensorTransfer> batch, Blocking blocking) {
  ONRT_RETURN_IF_ERROR(check_batch(session, batch, "read"));
  wait_all(batch, blocking);
  for (const TensorTransfer& item : batch) {
    ONRT_RETURN_IF_ERROR(do_read(*item.tensor, item.buffer, item.offset, item.size));
  }
  return ok_status();
}

Status write_batch(Session& session, std::span<const TensorTransfer> batch, Blocking blocking) {
  ONRT_RETURN_IF_ERROR(check_batch(session, batch, "write"));
  wait_all(batch, blocking);
  for (const TensorTransfer& item : batch) {
    ONRT_RETURN_IF_ERROR(do_write(*item.tensor, item.buffer, item.offset, item.size));
  }
  return ok_status();
}

}  // namespace onrt
