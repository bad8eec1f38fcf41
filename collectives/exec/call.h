// SPDX-License-Identifier: Apache-2.0
// One collective call as its rank makes it, and how that reads in messages.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/plan/schedule.h"
#include "collectives/reduce/reduce.h"
#include "collectives/transport/memory_ref.h"
#include "collectives/transport/record.h"

namespace onrt::cc {

struct Call {
  Op op = Op::kBarrier;
  Dtype dtype = Dtype::kU8;
  ReduceOp reduce_op = ReduceOp::kSum;
  uint64_t count = 0;  // elements of a block
  int root = 0;        // place in the group
  LocalBuffer in;
  LocalBuffer out;
  // kAllGatherV: elements and where they begin in out, by rank.
  // kAllToAllV: what goes to each rank, from where in `in`; and what comes, where to in `out`.
  std::vector<uint64_t> counts;
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> receive_counts;
  std::vector<uint64_t> receive_offsets;
  std::vector<std::pair<int, int>> pairs;  // kPermute

  bool in_place(int rank) const;
};

// What peers compare; `number` counts the calls of the group.
CallRecord record_of(const Call& call, uint64_t number, int rank);

// "all_reduce(sum, f32, 1024 elements)", "broadcast(u8, 16 elements, root 2)".
std::string describe(const CallRecord& record);

}  // namespace onrt::cc
