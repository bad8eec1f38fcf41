// SPDX-License-Identifier: Apache-2.0
// Objects behind C handles. A handle points to a slot whose memory is never returned, so a stale
// handle is recognised by its tag instead of being undefined behaviour. (One that was reused for a
// new object of the same kind can't be told apart; slots are reused oldest first to make it rare.)
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/core/parking.h"

namespace onrt {

struct HandleHeader {
  std::atomic<uint32_t> tag{0};     // T::kTag while the object lives
  std::atomic<uint32_t> serial{1};  // counts the objects that lived in this slot
  Gate gate;                        // for kinds whose destruction waits for their users
};

// All live objects of type T, which has a `static constexpr uint32_t kTag`. Thread-safe.
template <class T>
class HandleTable {
 public:
  static HandleTable& instance() {
    static HandleTable* const kInstance = new HandleTable;  // clients free handles at exit
    return *kInstance;
  }

  template <class... Arguments>
  T* create(Arguments&&... arguments) {
    Slot* slot = take_slot();
    T* object = nullptr;
    try {
      object = new (place_of(slot)) T(std::forward<Arguments>(arguments)...);
    } catch (...) {
      give_slot(slot);
      throw;
    }
    slot->header.gate.open();
    slot->header.tag.store(T::kTag, std::memory_order_release);
    return object;
  }

  // The caller is the only one that still uses the object.
  void destroy(T* object) {
    Slot* slot = slot_of(object);
    slot->header.tag.store(0, std::memory_order_release);
    slot->header.serial.fetch_add(1, std::memory_order_relaxed);
    object->~T();
    give_slot(slot);
  }

  // Null when `handle` is not a live object of this kind.
  static T* find(const void* handle) {
    auto* slot = static_cast<Slot*>(const_cast<void*>(handle));
    if (slot == nullptr || reinterpret_cast<uintptr_t>(slot) % alignof(Slot) != 0 ||
        slot->header.tag.load(std::memory_order_acquire) != T::kTag) {
      return nullptr;
    }
    return object_of(slot);
  }
  static void* handle_of(const T* object) { return slot_of(const_cast<T*>(object)); }
  static HandleHeader& header(const T* object) { return slot_of(const_cast<T*>(object))->header; }

 private:
  static constexpr size_t kObjectOffset =
      (sizeof(HandleHeader) + alignof(T) - 1) / alignof(T) * alignof(T);
  struct alignas(alignof(T) > alignof(HandleHeader) ? alignof(T) : alignof(HandleHeader)) Slot {
    HandleHeader header;
    unsigned char rest[kObjectOffset - sizeof(HandleHeader) + sizeof(T)];
  };
  static constexpr size_t kChunk = 64;

  static void* place_of(Slot* slot) {
    return reinterpret_cast<unsigned char*>(slot) + kObjectOffset;
  }
  static T* object_of(Slot* slot) { return std::launder(static_cast<T*>(place_of(slot))); }
  static Slot* slot_of(T* object) {
    return reinterpret_cast<Slot*>(reinterpret_cast<unsigned char*>(object) - kObjectOffset);
  }

  Slot* take_slot() {
    MutexLock lock(mutex_);
    if (free_.empty()) {
      chunks_.push_back(std::make_unique<Slot[]>(kChunk));
      for (size_t i = 0; i < kChunk; ++i) {
        free_.push_back(&chunks_.back()[i]);
      }
    }
    Slot* slot = free_.front();
    free_.pop_front();
    return slot;
  }
  void give_slot(Slot* slot) {
    MutexLock lock(mutex_);
    free_.push_back(slot);
  }

  Mutex mutex_;
  std::vector<std::unique_ptr<Slot[]>> chunks_ ONRT_GUARDED_BY(mutex_);
  std::deque<Slot*> free_ ONRT_GUARDED_BY(mutex_);
};

// A handle that is kept: knows whether the object it was made for still lives. A plain value.
template <class T>
class HandleRef {
 public:
  HandleRef() = default;
  explicit HandleRef(T* object)
      : object_(object), serial_(HandleTable<T>::header(object).serial.load()) {}
  // Null once the object was destroyed.
  T* get() const {
    if (object_ == nullptr) {
      return nullptr;
    }
    const HandleHeader& header = HandleTable<T>::header(object_);
    return header.tag.load(std::memory_order_acquire) == T::kTag &&
                   header.serial.load(std::memory_order_relaxed) == serial_
               ? object_
               : nullptr;
  }

 private:
  T* object_ = nullptr;
  uint32_t serial_ = 0;
};

}  // namespace onrt
