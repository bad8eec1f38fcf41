// SPDX-License-Identifier: Apache-2.0
#include "allocator/offset_allocator.h"

#include <algorithm>
#include <bit>

#include "runtime/base/format.h"

namespace onrt {
namespace {

// How many entries of the list below the searched one are looked at for an exact fit.
constexpr int kTightTries = 4;

}  // namespace

Result<OffsetAllocator> OffsetAllocator::create(uint64_t size, uint64_t granule) {
  if (!std::has_single_bit(granule)) {
    return Status(NRT_INVALID,
                  format("offset allocator: granule {} is not a power of two", granule));
  }
  const auto shift = static_cast<uint32_t>(std::countr_zero(granule));
  const uint64_t units = size >> shift;
  if (units == 0 || units >= (1ULL << 31)) {
    return Status(NRT_INVALID, format("offset allocator: {} bytes are {} granules of {}; expected "
                                      "1 to 2^31 - 1",
                                      size, units, granule));
  }
  return OffsetAllocator(static_cast<uint32_t>(units), shift);
}

OffsetAllocator::OffsetAllocator(uint32_t units, uint32_t shift)
    : shift_(shift), total_units_(units) {
  for (auto& row : heads_) {
    row.fill(kNone);
  }
  const uint32_t whole = new_node();
  nodes_[whole].size = units;
  insert_free(whole);
}

OffsetAllocator::Bin OffsetAllocator::bin_of(uint32_t units) {
  if (units < kSecond) {
    return {0, units};
  }
  const uint32_t top = 31U - static_cast<uint32_t>(std::countl_zero(units));
  return {top - kSecondBits + 1, (units >> (top - kSecondBits)) & (kSecond - 1)};
}

// A block of at least `units`: every block of the list found is large enough.
uint32_t OffsetAllocator::find_at_least(uint32_t units) const {
  if (units >= kSecond) {
    const uint32_t top = 31U - static_cast<uint32_t>(std::countl_zero(units));
    units += (1U << (top - kSecondBits)) - 1;
  }
  auto [first, second] = bin_of(units);
  if (first >= kFirst) {
    return kNone;
  }
  uint32_t row = second_mask_[first] & (~0U << second);
  if (row == 0) {
    const uint32_t above = first + 1 < 32 ? first_mask_ & (~0U << (first + 1)) : 0;
    if (above == 0) {
      return kNone;
    }
    first = static_cast<uint32_t>(std::countr_zero(above));
    row = second_mask_[first];
  }
  return heads_[first][static_cast<uint32_t>(std::countr_zero(row))];
}

bool OffsetAllocator::fits(uint32_t node, uint32_t units, uint32_t alignment) const {
  const uint64_t start = (static_cast<uint64_t>(nodes_[node].offset) + alignment - 1) &
                         ~(static_cast<uint64_t>(alignment) - 1);
  return start + units <= static_cast<uint64_t>(nodes_[node].offset) + nodes_[node].size;
}

// Second chance when the padded search fails: a block that fits only because it is aligned already,
// or whose size lies in the same list as `units` (find_at_least skips that list).
uint32_t OffsetAllocator::find_tight(uint32_t units, uint32_t alignment) const {
  const uint32_t above = find_at_least(units);
  if (above != kNone && fits(above, units, alignment)) {
    return above;
  }
  const auto [first, second] = bin_of(units);
  uint32_t node = heads_[first][second];
  for (int i = 0; i < kTightTries && node != kNone; ++i, node = nodes_[node].next_free) {
    if (fits(node, units, alignment)) {
      return node;
    }
  }
  return kNone;
}

std::optional<OffsetAllocator::Block> OffsetAllocator::allocate(uint64_t size, uint64_t alignment) {
  if (size == 0 || size > size_bytes() || !std::has_single_bit(alignment) ||
      (alignment >> shift_) > total_units_) {
    return std::nullopt;
  }
  const auto units = static_cast<uint32_t>((size + (1ULL << shift_) - 1) >> shift_);
  const auto align_units = std::max<uint32_t>(1, static_cast<uint32_t>(alignment >> shift_));
  // units, align_units <= total_units_ < 2^31: the sum fits.
  uint32_t node = find_at_least(units + align_units - 1);
  if (node == kNone) {
    node = find_tight(units, align_units);
    if (node == kNone) {
      return std::nullopt;
    }
  }
  const uint32_t start = (nodes_[node].offset + align_units - 1) & ~(align_units - 1);
  carve(node, start, units);
  return Block{static_cast<uint64_t>(start) << shift_, static_cast<uint64_t>(units) << shift_,
               node};
}

// Cuts [start, start + units) out of a free node, which becomes the used one.
void OffsetAllocator::carve(uint32_t node, uint32_t start, uint32_t units) {
  remove_free(node);
  const uint32_t front = start - nodes_[node].offset;
  if (front != 0) {
    const uint32_t piece = new_node();
    Node& cut = nodes_[piece];
    Node& self = nodes_[node];
    cut.offset = self.offset;
    cut.size = front;
    cut.previous = self.previous;
    cut.next = node;
    if (cut.previous != kNone) {
      nodes_[cut.previous].next = piece;
    }
    self.previous = piece;
    self.offset = start;
    self.size -= front;
    insert_free(piece);
  }
  const uint32_t tail = nodes_[node].size - units;
  if (tail != 0) {
    const uint32_t piece = new_node();
    Node& cut = nodes_[piece];
    Node& self = nodes_[node];
    cut.offset = start + units;
    cut.size = tail;
    cut.previous = node;
    cut.next = self.next;
    if (cut.next != kNone) {
      nodes_[cut.next].previous = piece;
    }
    self.next = piece;
    self.size = units;
    insert_free(piece);
  }
  nodes_[node].used = true;
  used_units_ += units;
  peak_units_ = std::max(peak_units_, used_units_);
  ++used_blocks_;
}

bool OffsetAllocator::free(const Block& block) {
  if (block.node >= nodes_.size()) {
    return false;
  }
  Node& freed = nodes_[block.node];
  if (!freed.used || block.offset != static_cast<uint64_t>(freed.offset) << shift_ ||
      block.size != static_cast<uint64_t>(freed.size) << shift_) {
    return false;
  }
  freed.used = false;
  used_units_ -= freed.size;
  --used_blocks_;
  uint32_t node = block.node;
  if (freed.next != kNone && !nodes_[freed.next].used) {
    remove_free(freed.next);
    absorb_next(node);
  }
  const uint32_t previous = nodes_[node].previous;
  if (previous != kNone && !nodes_[previous].used) {
    remove_free(previous);
    absorb_next(previous);
    node = previous;
  }
  insert_free(node);
  return true;
}

// Adds the neighbour after `node`, which is in no list, to `node`.
void OffsetAllocator::absorb_next(uint32_t node) {
  const uint32_t gone = nodes_[node].next;
  nodes_[node].size += nodes_[gone].size;
  nodes_[node].next = nodes_[gone].next;
  if (nodes_[node].next != kNone) {
    nodes_[nodes_[node].next].previous = node;
  }
  nodes_[gone] = Node{};
  nodes_[gone].next_free = unused_nodes_;
  unused_nodes_ = gone;
}

void OffsetAllocator::insert_free(uint32_t node) {
  const auto [first, second] = bin_of(nodes_[node].size);
  uint32_t& head = heads_[first][second];
  nodes_[node].previous_free = kNone;
  nodes_[node].next_free = head;
  if (head != kNone) {
    nodes_[head].previous_free = node;
  }
  head = node;
  second_mask_[first] |= 1U << second;
  first_mask_ |= 1U << first;
  ++free_blocks_;
}

void OffsetAllocator::remove_free(uint32_t node) {
  const Node& self = nodes_[node];
  if (self.next_free != kNone) {
    nodes_[self.next_free].previous_free = self.previous_free;
  }
  if (self.previous_free != kNone) {
    nodes_[self.previous_free].next_free = self.next_free;
  } else {
    const auto [first, second] = bin_of(self.size);
    heads_[first][second] = self.next_free;
    if (self.next_free == kNone) {
      second_mask_[first] &= ~(1U << second);
      if (second_mask_[first] == 0) {
        first_mask_ &= ~(1U << first);
      }
    }
  }
  --free_blocks_;
}

uint32_t OffsetAllocator::new_node() {
  if (unused_nodes_ != kNone) {
    const uint32_t node = unused_nodes_;
    unused_nodes_ = nodes_[node].next_free;
    nodes_[node] = Node{};
    return node;
  }
  nodes_.emplace_back();
  return static_cast<uint32_t>(nodes_.size() - 1);
}

OffsetAllocator::Statistics OffsetAllocator::statistics() const {
  Statistics out;
  out.size = size_bytes();
  out.used = used_bytes();
  out.peak_used = static_cast<uint64_t>(peak_units_) << shift_;
  out.used_blocks = used_blocks_;
  out.free_blocks = free_blocks_;
  if (first_mask_ != 0) {
    const uint32_t first = 31U - static_cast<uint32_t>(std::countl_zero(first_mask_));
    const uint32_t second = 31U - static_cast<uint32_t>(std::countl_zero(second_mask_[first]));
    uint32_t largest = 0;
    for (uint32_t node = heads_[first][second]; node != kNone; node = nodes_[node].next_free) {
      largest = std::max(largest, nodes_[node].size);
    }
    out.largest_free = static_cast<uint64_t>(largest) << shift_;
  }
  return out;
}

Status OffsetAllocator::check_invariants() const {
  uint32_t free_blocks = 0;
  ONRT_RETURN_IF_ERROR(check_chain(&free_blocks));
  return check_bins(free_blocks);
}

// The blocks by address tile the range, no two free ones touch, the counters agree.
Status OffsetAllocator::check_chain(uint32_t* free_blocks) const {
  uint32_t first = kNone;
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].size != 0 && nodes_[i].previous == kNone) {
      if (first != kNone) {
        return Status(NRT_FAILURE, format("blocks {} and {} both come first", first, i));
      }
      first = i;
    }
  }
  uint32_t position = 0;
  uint32_t used = 0;
  uint32_t used_blocks = 0;
  uint32_t before = kNone;
  for (uint32_t node = first; node != kNone; node = nodes_[node].next) {
    const Node& self = nodes_[node];
    if (self.offset != position || self.size == 0 || self.previous != before) {
      return Status(NRT_FAILURE, format("block {} at {} size {} after {}: expected offset {}", node,
                                        self.offset, self.size, before, position));
    }
    if (!self.used && before != kNone && !nodes_[before].used) {
      return Status(NRT_FAILURE, format("free blocks {} and {} touch", before, node));
    }
    position += self.size;
    used += self.used ? self.size : 0;
    used_blocks += self.used ? 1 : 0;
    *free_blocks += self.used ? 0 : 1;
    before = node;
  }
  if (position != total_units_ || used != used_units_ || used_blocks != used_blocks_ ||
      *free_blocks != free_blocks_) {
    return Status(NRT_FAILURE,
                  format("counted {} granules, {} used in {} blocks, {} free blocks; expected {}, "
                         "{}, {}, {}",
                         position, used, used_blocks, *free_blocks, total_units_, used_units_,
                         used_blocks_, free_blocks_));
  }
  return ok_status();
}

// Every free block is in the list of its size, and the masks say which lists have entries.
Status OffsetAllocator::check_bins(uint32_t free_blocks) const {
  uint32_t listed = 0;
  for (uint32_t first = 0; first < kFirst; ++first) {
    for (uint32_t second = 0; second < kSecond; ++second) {
      const uint32_t head = heads_[first][second];
      if ((head != kNone) != (((second_mask_[first] >> second) & 1U) != 0)) {
        return Status(NRT_FAILURE, format("mask of list {}.{} is wrong", first, second));
      }
      uint32_t before = kNone;
      for (uint32_t node = head; node != kNone; node = nodes_[node].next_free) {
        const Bin bin = bin_of(nodes_[node].size);
        if (nodes_[node].used || bin.first != first || bin.second != second ||
            nodes_[node].previous_free != before) {
          return Status(NRT_FAILURE,
                        format("block {} is in the wrong list {}.{}", node, first, second));
        }
        before = node;
        ++listed;
      }
    }
    if ((second_mask_[first] != 0) != (((first_mask_ >> first) & 1U) != 0)) {
      return Status(NRT_FAILURE, format("mask of row {} is wrong", first));
    }
  }
  if (listed != free_blocks) {
    return Status(NRT_FAILURE, format("{} blocks in lists, {} free", listed, free_blocks));
  }
  return ok_status();
}

}  // namespace onrt
