// SPDX-License-Identifier: Apache-2.0
// Strided windows on buffers, before buffers have addresses: how views become free.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compiler/hir/shape.h"
#include "runtime/base/dtype.h"

namespace onrt::lowering {

// Up to hir::kMaxRank + 1 integers: a few in place, as almost all shapes have, else on the heap.
// Thread-compatible.
class Dims {
 public:
  Dims() = default;
  explicit Dims(std::span<const int64_t> values) { assign(values); }
  Dims(std::initializer_list<int64_t> values) { assign({values.begin(), values.size()}); }
  Dims(const Dims& other) { assign(other); }
  Dims(Dims&& other) noexcept { take(other); }
  Dims& operator=(const Dims& other) {
    if (this != &other) {
      assign(other);
    }
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    if (this != &other) {
      take(other);
    }
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](size_t i) { return data()[i]; }
  int64_t operator[](size_t i) const { return data()[i]; }
  int64_t back() const { return data()[size_ - 1]; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  void push_back(int64_t value) {
    make_room(size_ + 1);
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  void resize(size_t size, int64_t value = 0) {
    make_room(size);
    std::fill(data() + size_, data() + std::max(size, size_), value);
    size_ = size;
  }
  // NOLINTNEXTLINE(google-explicit-constructor): dims are integers in a row
  operator std::span<const int64_t>() const { return {data(), size_}; }
  bool operator==(const Dims& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  static constexpr size_t kInPlace = 6;
  static constexpr size_t kMost = hir::kMaxRank + 1;

  int64_t* data() { return large_ ? large_.get() : few_.data(); }
  const int64_t* data() const { return large_ ? large_.get() : few_.data(); }
  void make_room(size_t size) {
    if (size > kInPlace && !large_) {
      large_ = std::make_unique<int64_t[]>(kMost);
      std::copy_n(few_.begin(), size_, large_.get());
    }
  }
  void assign(std::span<const int64_t> values) {
    make_room(values.size());
    size_ = values.size();
    std::copy(values.begin(), values.end(), data());
  }
  void take(Dims& other) {
    large_ = std::move(other.large_);
    size_ = std::exchange(other.size_, 0);
    if (!large_) {
      std::copy_n(other.few_.begin(), size_, few_.begin());
    }
  }

  size_t size_ = 0;
  std::unique_ptr<int64_t[]> large_;  // null: the integers are in few_
  std::array<int64_t, kInPlace> few_;
};

using BufferId = int32_t;

// Element (i0, i1, ...) is at byte `offset` + sum(i_d * strides[d]) * dtype_bytes of the buffer.
struct Window {
  BufferId buffer = -1;
  Dtype dtype = Dtype::kF32;
  int64_t offset = 0;
  Dims dims;
  Dims strides;  // in elements; 0 repeats, negative reverses

  bool operator==(const Window&) const = default;
};

int64_t element_count(std::span<const int64_t> dims);
Dims dense_strides(std::span<const int64_t> dims);
Window dense_window(BufferId buffer, Dtype dtype, std::span<const int64_t> dims);
// Row-major without gaps, from the window's offset.
bool is_dense(const Window& window);

// Dimension i of the result is dimension order[i] of `window`.
Window permute(const Window& window, std::span<const int64_t> order);
// Dimension i of `window` becomes dimension `dimensions[i]` of `dims`; the others repeat.
Window broadcast(const Window& window, std::span<const int64_t> dims,
                 std::span<const int64_t> dimensions);
// start, limit, stride per dimension; bounds hold.
Window slice(const Window& window, std::span<const int64_t> slice);
Window reverse(const Window& window, std::span<const int64_t> dimensions);
// Nothing if no strides give the elements in this order.
std::optional<Window> reshape(const Window& window, std::span<const int64_t> dims);

// True if dimensions [begin, begin + count) can be one dimension.
bool can_merge(const Window& window, size_t begin, size_t count);

// A run of neighbouring dimensions.
struct Run {
  size_t begin = 0;
  size_t count = 0;
};
// Each run becomes one dimension; all can_merge().
Window merge(const Window& window, std::span<const Run> runs);

// Fewest runs of dimensions [begin, end) of `dims`, in order, that every window can merge.
// Dimensions of size 1 vanish. A dimension whose bit in `fixed` is set stays alone.
std::vector<Run> common_runs(std::span<const Window* const> windows, std::span<const int64_t> dims,
                             size_t begin, size_t end, uint64_t fixed);

}  // namespace onrt::lowering
