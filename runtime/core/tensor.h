// SPDX-License-Identifier: Apache-2.0
// Tensors: a name, a range, and storage that slices share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "allocator/hbm_pool.h"
#include "runtime/core/handle.h"
#include "runtime/core/session.h"

namespace onrt {

enum class TensorPlacement : uint8_t { kDevice, kHost, kVirtual };

// Memory of one or more tensors. Lives until the last reference goes, also after the session ended:
// device memory then belongs to nobody and is only forgotten. Thread-safe.
class TensorStorage {
 public:
  static Result<TensorStorage*> on_device(Session& session, CoreContext& core, uint64_t size);
  static Result<TensorStorage*> on_host(Session& session, uint64_t size);
  static TensorStorage* of_caller(void* buffer, uint64_t size);

  bool is_device() const { return core_ != nullptr; }
  uint64_t size() const { return size_; }
  // Of device storage:
  const HbmBlock& block() const { return block_; }
  CoreContext& core() const { return *core_; }
  const HbmId& hbm() const { return block_.extent->extent().hbm; }
  uint64_t generation() const { return generation_; }
  // Of host storage:
  std::byte* host() const { return host_; }

  // Host address of the whole device storage; maps it at first use.
  Result<std::byte*> host_view(Session& session);

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release();

  // An execution that reads or writes the storage, from submission to completion.
  void begin_use() { uses_.fetch_add(1); }
  void end_use() {
    if (uses_.fetch_sub(1) == 1) {
      Parking::instance().wake();
    }
  }
  // Returns when no execution uses the storage.
  void wait_idle() const {
    Parking::instance().wait([this] { return uses_.load() == 0; }, kForever);
  }

 private:
  TensorStorage() = default;
  ~TensorStorage() = default;

  std::atomic<uint32_t> references_{1};
  std::atomic<uint32_t> uses_{0};
  uint64_t size_ = 0;
  std::byte* host_ = nullptr;
  bool owns_host_ = false;
  SessionGate* gate_ = nullptr;  // null for a buffer of the caller's
  uint64_t generation_ = 0;
  CoreContext* core_ = nullptr;  // null for host storage; valid while the session is open
  HbmBlock block_;
  std::atomic<std::byte*> view_{nullptr};
};

// Reference to a storage.
class StorageRef {
 public:
  StorageRef() = default;
  explicit StorageRef(TensorStorage* taken) : storage_(taken) {}  // takes over one reference
  StorageRef(const StorageRef& other) : storage_(other.storage_) {
    if (storage_ != nullptr) {
      storage_->retain();
    }
  }
  StorageRef(StorageRef&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
  StorageRef& operator=(StorageRef other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~StorageRef() {
    if (storage_ != nullptr) {
      storage_->release();
    }
  }
  explicit operator bool() const { return storage_ != nullptr; }
  TensorStorage* operator->() const { return storage_; }
  TensorStorage& operator*() const { return *storage_; }
  TensorStorage* get() const { return storage_; }

 private:
  TensorStorage* storage_ = nullptr;
};

// Thread-compatible, except for the completion counter: callers don't change a tensor (attach,
// free) while another thread uses it.
class Tensor {
 public:
  static constexpr uint32_t kTag = 0x54454E53;

  Tensor(const char* name, StorageRef storage, uint64_t offset, uint64_t size)
      : name_(name == nullptr ? "" : name),
        storage_(std::move(storage)),
        offset_(offset),
        size_(size) {}

  // All of these return a tensor that free_tensor() ends. `name` may be null.
  static Result<Tensor*> allocate(Session& session, TensorPlacement placement, int vnc,
                                  uint64_t size, const char* name);
  static Tensor* allocate_empty(const char* name);
  static Result<Tensor*> slice(const Tensor& source, uint64_t offset, uint64_t size,
                               const char* name);

  // For messages: "tensor 'x'".
  std::string label() const;
  const std::string& name() const { return name_; }
  uint64_t size() const { return size_; }
  bool has_storage() const { return static_cast<bool>(storage_); }
  TensorStorage& storage() const { return *storage_; }
  uint64_t offset() const { return offset_; }
  DeviceAddress address() const { return storage_->block().address + offset_; }
  std::byte* host() const { return storage_->host() + offset_; }

  // The tensor then uses the caller's buffer; storage that it had is released.
  Status attach(void* buffer, uint64_t size);

  // NRT_INVALID when there is no storage, NRT_INVALID_HANDLE when it is of a session that ended.
  Status check_usable(const Session& session) const;
  // NRT_INVALID unless [offset, offset + bytes) lies inside; safe against overflow.
  Status check_range(const char* what, uint64_t offset, uint64_t bytes) const;

  Result<void*> host_address(Session& session);

  // Counts executions that wrote this tensor.
  void complete_once() { completions_.fetch_add(1); }
  void reset_completions() { completions_.store(0); }
  // NRT_TIMEOUT when the count is not reached in time; a negative time waits, and warns now and
  // then.
  Status wait_completions(const Session& session, uint64_t expected,
                          std::chrono::microseconds time) const;

 private:
  std::string name_;
  StorageRef storage_;
  uint64_t offset_ = 0;
  uint64_t size_ = 0;
  std::atomic<uint64_t> completions_{0};
};

void free_tensor(Tensor* tensor);

}  // namespace onrt
