// SPDX-License-Identifier: Apache-2.0
// How algorithms cut a message: one block a rank, of a block one part a channel and slice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/plan/schedule.h"

namespace onrt::cc {

struct Block {
  uint64_t in = 0;   // offset in in, of the rank that has it there
  uint64_t out = 0;  // offset in out, of the rank that has it there
  uint64_t count = 0;
};

// Of all_reduce, reduce and broadcast: part `index` of `parts`, beginning at a cache line.
inline Block message_part(const Spec& spec, int index, int parts) {
  const auto [first, count] = part_of(spec.count, static_cast<uint64_t>(parts),
                                      static_cast<uint64_t>(index), line_elements(spec));
  return {first, first, count};
}

// Block of rank `index`: of the message for all_reduce, reduce and broadcast; what the rank gives
// for all_gather(v) and gather; what it gets for reduce_scatter and scatter.
inline Block rank_block(const Spec& spec, int index) {
  switch (spec.op) {
    case Op::kAllGather:
    case Op::kGather:
      return {0, spec.out_offset(index, 0), spec.count};
    case Op::kAllGatherV:
      return {spec.in_offset(index, 0), spec.out_offset(index, 0),
              spec.counts[static_cast<size_t>(index)]};
    case Op::kReduceScatter:
    case Op::kScatter:
      return {spec.in_offset(0, index), 0, spec.count};
    default:
      return message_part(spec, index, spec.ranks);
  }
}

inline std::vector<Block> rank_blocks(const Spec& spec) {
  std::vector<Block> blocks;
  for (int index = 0; index < spec.ranks; ++index) {
    blocks.push_back(rank_block(spec, index));
  }
  return blocks;
}

inline uint64_t largest(const std::vector<Block>& blocks) {
  uint64_t most = 0;
  for (const Block& block : blocks) {
    most = std::max(most, block.count);
  }
  return most;
}

// What a channel's slice moves of a block: (first, count) within the block.
inline std::pair<uint64_t, uint64_t> slice_of(const Spec& spec, const Block& block, int channel,
                                              int slice) {
  const uint64_t granule = line_elements(spec);
  const auto [begin, length] = part_of(block.count, static_cast<uint64_t>(spec.channels),
                                       static_cast<uint64_t>(channel), granule);
  const auto [first, count] =
      part_of(length, static_cast<uint64_t>(spec.slices), static_cast<uint64_t>(slice), granule);
  return {begin + first, count};
}

inline int modulo(int value, int n) { return (value % n + n) % n; }

}  // namespace onrt::cc
