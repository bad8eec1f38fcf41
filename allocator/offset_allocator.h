// SPDX-License-Identifier: Apache-2.0
// Two-level segregated fit over the number range [0, size): no memory of its own is touched, so the
// range can be device memory, a ring or anything else that is counted in bytes.
// Source: M. Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems" (2004).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/status.h"

namespace onrt {

// allocate() and free() take constant time and merge neighbours at once. Thread-compatible.
class OffsetAllocator {
 public:
  struct Block {
    uint64_t offset = 0;
    uint64_t size = 0;  // what was asked, rounded up to the granule
    uint32_t node = 0;  // private: lets free() find the block without a search
  };

  struct Statistics {
    uint64_t size = 0;
    uint64_t used = 0;
    uint64_t peak_used = 0;
    uint64_t largest_free = 0;
    uint32_t used_blocks = 0;
    uint32_t free_blocks = 0;
  };

  // `size` is rounded down to the granule, a power of two; size / granule must be below 2^31.
  static Result<OffsetAllocator> create(uint64_t size, uint64_t granule);

  // Nothing when no free block fits, when `size` is 0 or when `alignment` is no power of two.
  std::optional<Block> allocate(uint64_t size, uint64_t alignment);
  // False, and nothing changes, when `block` is not a live block of this allocator.
  bool free(const Block& block);

  uint64_t size_bytes() const { return static_cast<uint64_t>(total_units_) << shift_; }
  uint64_t used_bytes() const { return static_cast<uint64_t>(used_units_) << shift_; }
  uint64_t free_bytes() const { return size_bytes() - used_bytes(); }
  bool empty() const { return used_units_ == 0; }

  // Walks the list that holds the largest free block; everything else is counted as it happens.
  Statistics statistics() const;

  // Walks the whole structure; a failure names the first broken rule. For tests.
  Status check_invariants() const;

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  static constexpr uint32_t kSecondBits = 4;  // 16 lists per power of two: at most 6 % search loss
  static constexpr uint32_t kSecond = 1U << kSecondBits;
  static constexpr uint32_t kFirst = 32 - kSecondBits;

  struct Node {
    uint32_t offset = 0;  // in granules
    uint32_t size = 0;
    uint32_t previous = kNone;  // neighbours by address
    uint32_t next = kNone;
    uint32_t previous_free =
        kNone;  // neighbours in the same list; next_free also chains unused nodes
    uint32_t next_free = kNone;
    bool used = false;
  };
  struct Bin {
    uint32_t first;
    uint32_t second;
  };

  OffsetAllocator(uint32_t units, uint32_t shift);

  static Bin bin_of(uint32_t units);
  uint32_t find_at_least(uint32_t units) const;
  uint32_t find_tight(uint32_t units, uint32_t alignment) const;
  bool fits(uint32_t node, uint32_t units, uint32_t alignment) const;
  void insert_free(uint32_t node);
  void remove_free(uint32_t node);
  uint32_t new_node();
  void carve(uint32_t node, uint32_t start, uint32_t units);
  void absorb_next(uint32_t node);
  Status check_chain(uint32_t* free_blocks) const;
  Status check_bins(uint32_t free_blocks) const;

  uint32_t shift_;
  uint32_t total_units_;
  uint32_t used_units_ = 0;
  uint32_t peak_units_ = 0;
  uint32_t used_blocks_ = 0;
  uint32_t free_blocks_ = 0;
  uint32_t unused_nodes_ = kNone;
  uint32_t first_mask_ = 0;
  std::array<uint32_t, kFirst> second_mask_{};
  std::array<std::array<uint32_t, kSecond>, kFirst> heads_;
  std::vector<Node> nodes_;
};

}  // namespace onrt
