// SPDX-License-Identifier: Apache-2.0
// Windows of a long message are run as messages of their own whose blocks lie side by side; this
// maps an element's place there to its place in the caller's buffer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace onrt::cc {

class BlockMap {
 public:
  // One block that begins at `shift`.
  void set_single(uint64_t shift) {
    shift_ = shift;
    blocks_.clear();
  }
  // Blocks of `count` elements side by side, `stride` apart in the buffer, the first at `shift`.
  void set_uniform(int blocks, uint64_t count, uint64_t stride, uint64_t shift) {
    set_single(shift);
    if (count == stride || blocks == 1) {
      return;
    }
    for (int i = 0; i < blocks; ++i) {
      add(shift + static_cast<uint64_t>(i) * stride, count);
    }
  }
  void clear() { set_single(0); }
  // One more block, of `count` elements at `place` of the buffer.
  void add(uint64_t place, uint64_t count) {
    const uint64_t packed = blocks_.empty() ? 0 : blocks_.back().packed + blocks_.back().count;
    if (count != 0) {
      blocks_.push_back({packed, place, count});
    }
  }

  bool single() const { return blocks_.empty(); }
  uint64_t shift() const { return shift_; }
  // Where element `packed` lies, and how many follow it there, at most `count`.
  std::pair<uint64_t, uint64_t> find(uint64_t packed, uint64_t count) const {
    if (blocks_.empty()) {
      return {packed + shift_, count};
    }
    auto block = std::upper_bound(blocks_.begin(), blocks_.end(), packed,
                                  [](uint64_t at, const Block& b) { return at < b.packed; });
    --block;
    const uint64_t into = packed - block->packed;
    return {block->place + into, std::min(count, block->count - std::min(into, block->count))};
  }

 private:
  struct Block {
    uint64_t packed;
    uint64_t place;
    uint64_t count;
  };
  uint64_t shift_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace onrt::cc
