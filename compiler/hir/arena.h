// SPDX-License-Identifier: Apache-2.0
// Bump allocator for trivially destructible data that lives as long as its graph.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace onrt::hir {

// Pointers stay valid until the arena is destroyed. Thread-compatible.
class Arena {
 public:
  Arena() = default;
  Arena(Arena&&) noexcept = default;
  Arena& operator=(Arena&&) noexcept = default;

  template <class T>
  std::span<T> allocate(size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlignment);
    return {reinterpret_cast<T*>(take(count * sizeof(T))), count};
  }

  template <class T>
  std::span<const T> copy(std::span<const T> values) {
    if (values.empty()) {
      return {};
    }
    std::span<T> made = allocate<T>(values.size());
    std::memcpy(made.data(), values.data(), values.size_bytes());
    return made;
  }

  std::string_view copy(std::string_view text) {
    const auto made = copy(std::span<const char>(text.data(), text.size()));
    return {made.data(), made.size()};
  }

 private:
  static constexpr size_t kAlignment = 16;
  static constexpr size_t kChunkBytes = 16384;

  std::byte* take(size_t bytes) {
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (bytes > left_) {
      const size_t chunk = std::max(bytes, kChunkBytes);
      chunks_.push_back(std::unique_ptr<std::byte[]>(new std::byte[chunk]));
      if (bytes > kChunkBytes / 4) {  // of its own; the current chunk stays in use
        return chunks_.back().get();
      }
      next_ = chunks_.back().get();
      left_ = chunk;
    }
    std::byte* made = next_;
    next_ += bytes;
    left_ -= bytes;
    return made;
  }

  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace onrt::hir
