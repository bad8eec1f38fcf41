// SPDX-License-Identifier: Apache-2.0
// Objects behind C handles. A handle points to a slot whose memory is never returned, so a stale
// handle is recognised by its tag instead of being undefined behaviour; a pointer to anything else
// is found to be no slot before it is followed. (One that was reused for a new object of the same
// kind can't be told apart; slots are reused oldest first to make it rare.)
#pragma once

#include <atomic>
#include <bit>
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

// Addresses that are only ever added, one thread at a time; contains() takes no lock.
class AddressSet {
 public:
  bool contains(uintptr_t address) const {
    const Table* table = table_.load(std::memory_order_acquire);
    if (table == nullptr || address == 0) {
      return false;
    }
    for (size_t i = hash(address);; ++i) {
      const uintptr_t found = table->entries[i & table->mask].load(std::memory_order_acquire);
      if (found == address || found == 0) {
        return found == address;
      }
    }
  }

  void insert(uintptr_t address) {
    const Table* table = table_.load(std::memory_order_relaxed);
    if (table == nullptr || 2 * (count_ + 1) > table->mask) {
      auto larger = std::make_unique<Table>(table == nullptr ? 16 : 2 * (table->mask + 1));
      for (size_t i = 0; table != nullptr && i <= table->mask; ++i) {
        if (const uintptr_t old = table->entries[i].load(std::memory_order_relaxed)) {
          put(*larger, old);
        }
      }
      tables_.push_back(std::move(larger));  // readers may still look at the smaller one
      table_.store(tables_.back().get(), std::memory_order_release);
    }
    put(*tables_.back(), address);
    ++count_;
  }

 private:
  struct Table {
    explicit Table(size_t size)
        : mask(size - 1), entries(std::make_unique<std::atomic<uintptr_t>[]>(size)) {}
    const size_t mask;
    const std::unique_ptr<std::atomic<uintptr_t>[]> entries;
  };

  static size_t hash(uintptr_t address) { return address * 0x9E3779B97F4A7C15ULL >> 32; }
  static void put(Table& table, uintptr_t address) {
    size_t i = hash(address);
    while (table.entries[i & table.mask].load(std::memory_order_relaxed) != 0) {
      ++i;
    }
    table.entries[i & table.mask].store(address, std::memory_order_release);
  }

  std::atomic<const Table*> table_{nullptr};
  std::vector<std::unique_ptr<Table>> tables_;
  size_t count_ = 0;
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
    const auto address = reinterpret_cast<uintptr_t>(handle);
    const uintptr_t chunk = address & ~(kChunkBytes - 1);
    if ((address - chunk) % sizeof(Slot) != 0 || address - chunk >= kChunk * sizeof(Slot) ||
        !instance().chunks_.contains(chunk)) {
      return nullptr;
    }
    auto* slot = static_cast<Slot*>(const_cast<void*>(handle));
    return slot->header.tag.load(std::memory_order_acquire) == T::kTag ? object_of(slot) : nullptr;
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
  // Chunks lie at multiples of this, so that a slot tells its chunk.
  static constexpr uintptr_t kChunkBytes = std::bit_ceil(kChunk * sizeof(Slot));

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
      void* memory = ::operator new(kChunkBytes, std::align_val_t(kChunkBytes));  // never freed
      auto* slots = static_cast<Slot*>(memory);
      std::uninitialized_value_construct_n(slots, kChunk);
      chunks_.insert(reinterpret_cast<uintptr_t>(memory));
      for (size_t i = 0; i < kChunk; ++i) {
        free_.push_back(&slots[i]);
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
  AddressSet chunks_;  // inserted under mutex_
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
