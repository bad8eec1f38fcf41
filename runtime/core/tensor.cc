// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/tensor.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/base/format.h"
#include "runtime/core/execution_counters.h"

namespace onrt {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kSmallAlignment = 64;
constexpr auto kWarnEvery = std::chrono::seconds(30);

}  // namespace

Result<TensorStorage*> TensorStorage::on_device(Session& session, CoreContext& core,
                                                uint64_t size) {
  HbmRequest request;
  request.size = size;
  request.alignment = size >= kPageBytes ? kPageBytes : kSmallAlignment;
  request.category = MemoryCategory::kTensors;
  request.core = core.core;
  auto allocated = HbmMemory::allocate(core.pool, request);
  if (!allocated.ok()) {
    count_failure(core.statistics, allocated.status().code());
    return std::move(allocated).status();
  }
  HbmMemory memory = std::move(allocated).value();
  auto* storage = new TensorStorage;
  storage->size_ = size;
  storage->gate_ = &session.gate();
  storage->generation_ = session.generation();
  storage->core_ = &core;
  storage->block_ = memory.block();
  memory.abandon();
  return storage;
}

Result<TensorStorage*> TensorStorage::on_host(Session& session, uint64_t size) {
  // Whole pages, so that a DMA engine could reach it. aligned_alloc() wants a multiple.
  void* memory =
      size > SIZE_MAX - kPageBytes
          ? nullptr
          : std::aligned_alloc(kPageBytes, (size + kPageBytes - 1) / kPageBytes * kPageBytes);
  if (memory == nullptr) {
    return Status(NRT_RESOURCE, format("{} bytes of host memory can't be had", size));
  }
  TensorStorage* storage = of_caller(memory, size);
  storage->owns_host_ = true;
  if (session.machine().account_host(HostCategory::kTensors, static_cast<int64_t>(size)).ok()) {
    storage->gate_ = &session.gate();
    storage->generation_ = session.generation();
  }
  return storage;
}

TensorStorage* TensorStorage::of_caller(void* buffer, uint64_t size) {
  auto* storage = new TensorStorage;
  storage->size_ = size;
  storage->host_ = static_cast<std::byte*>(buffer);
  return storage;
}

void TensorStorage::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  if (owns_host_) {
    std::free(host_);
  }
  if (gate_ != nullptr) {
    // When the session ended, its machine took the memory back.
    if (const SessionUse session(*gate_, generation_); session) {
      if (core_ == nullptr) {
        // Only what tools are shown; it worked when the storage was made.
        static_cast<void>(
            session->machine().account_host(HostCategory::kTensors, -static_cast<int64_t>(size_)));
      } else {
        if (const std::byte* view = view_.load()) {
          session->views().remove(view);
        }
        core_->pool.free(block_);
      }
    }
  }
  delete this;
}

Result<std::byte*> TensorStorage::host_view(Session& session) {
  if (std::byte* view = view_.load()) {
    return view;
  }
  ONRT_RETURN_IF_ERROR(block_.commit(0, size_));
  ONRT_ASSIGN_OR_RETURN(std::byte * view, session.machine().map(hbm(), block_.address, size_));
  std::byte* expected = nullptr;
  if (view_.compare_exchange_strong(expected, view)) {
    session.views().add(view, {hbm(), block_.address, size_});
    return view;
  }
  return expected;
}

Result<Tensor*> Tensor::allocate(Session& session, TensorPlacement placement, int vnc,
                                 uint64_t size, const char* name) {
  if (size == 0) {
    return Status(NRT_INVALID, format("tensor '{}': size 0; expected at least one byte",
                                      name == nullptr ? "" : name));
  }
  if (placement != TensorPlacement::kDevice) {
    ONRT_ASSIGN_OR_RETURN(TensorStorage* const memory, TensorStorage::on_host(session, size));
    return HandleTable<Tensor>::instance().create(name, StorageRef(memory), 0U, size);
  }
  ONRT_ASSIGN_OR_RETURN(CoreContext* const core, session.core(vnc));
  auto memory = TensorStorage::on_device(session, *core, size);
  if (!memory.ok()) {
    return std::move(memory).status().annotate(format("tensor '{}'", name == nullptr ? "" : name));
  }
  return HandleTable<Tensor>::instance().create(name, StorageRef(*memory), 0U, size);
}

Tensor* Tensor::allocate_empty(const char* name) {
  return HandleTable<Tensor>::instance().create(name, StorageRef(), 0U, 0U);
}

Result<Tensor*> Tensor::slice(const Tensor& source, uint64_t offset, uint64_t size,
                              const char* name) {
  if (!source.has_storage()) {
    return Status(NRT_INVALID, source.label() + " has no storage to slice");
  }
  if (size == 0) {
    return Status(NRT_INVALID, source.label() + ": a slice of size 0");
  }
  ONRT_RETURN_IF_ERROR(source.check_range("slice", offset, size));
  return HandleTable<Tensor>::instance().create(name, source.storage_, source.offset_ + offset,
                                                size);
}

std::string Tensor::label() const { return format("tensor '{}'", name_); }

Status Tensor::attach(void* buffer, uint64_t size) {
  if (buffer == nullptr || size == 0) {
    return Status(NRT_INVALID, format("{}: expected a buffer to attach, found {} of {} bytes",
                                      label(), buffer == nullptr ? "NULL" : "one", size));
  }
  if (size > UINTPTR_MAX - reinterpret_cast<uintptr_t>(buffer)) {
    return Status(NRT_INVALID,
                  format("{}: {} bytes at {} reach beyond the end of the address space", label(),
                         size, buffer));
  }
  if (storage_) {
    storage_->wait_idle();
  }
  storage_ = StorageRef(TensorStorage::of_caller(buffer, size));
  offset_ = 0;
  size_ = size;
  return ok_status();
}

Status Tensor::check_usable(const Session& session) const {
  if (!storage_) {
    return Status(NRT_INVALID, label() + " is empty: no buffer was attached");
  }
  if (storage_->is_device() && storage_->generation() != session.generation()) {
    return Status(NRT_INVALID_HANDLE,
                  label() + " was allocated before nrt_close(); its device memory is gone");
  }
  return ok_status();
}

Status Tensor::check_range(const char* what, uint64_t offset, uint64_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) {
    return Status(NRT_INVALID, format("{}: {} of {} bytes at offset {} does not fit its {} bytes",
                                      label(), what, bytes, offset, size_));
  }
  return ok_status();
}

Result<void*> Tensor::host_address(Session& session) {
  ONRT_RETURN_IF_ERROR(check_usable(session));
  if (!storage_->is_device()) {
    return static_cast<void*>(host());
  }
  ONRT_ASSIGN_OR_RETURN(std::byte* const view, storage_->host_view(session));
  return static_cast<void*>(view + offset_);
}

Status Tensor::wait_completions(const Session& session, uint64_t expected,
                                std::chrono::microseconds time) const {
  const auto start = std::chrono::steady_clock::now();
  // A very long time is as good as for ever and does not overflow the clock.
  const bool bounded = time.count() >= 0 && time < std::chrono::hours(24 * 365);
  const auto ready = [&] { return completions_.load() >= expected || !session.gate().is_open(); };
  auto next_warning = start + kWarnEvery;
  while (true) {
    const auto deadline = bounded ? std::min(start + time, next_warning) : next_warning;
    if (Parking::instance().wait(ready, deadline)) {
      break;
    }
    if (bounded && std::chrono::steady_clock::now() >= start + time) {
      return Status(NRT_TIMEOUT, format("{}: {} of {} completions after {} us", label(),
                                        completions_.load(), expected, time.count()));
    }
    ONRT_LOG(session.context().log, Nrt, Warning, "{}: waiting for completion {}, now at {}",
             label(), expected, completions_.load());
    next_warning += kWarnEvery;
  }
  return completions_.load() >= expected
             ? ok_status()
             : Status(NRT_CLOSED,
                      label() + ": nrt_close() was called while waiting for completion");
}

void free_tensor(Tensor* tensor) { HandleTable<Tensor>::instance().destroy(tensor); }

}  // namespace onrt
