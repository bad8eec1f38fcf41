// SPDX-License-Identifier: Apache-2.0
// Runs a schedule over real memory on one thread, in an order that a seed picks: for tests, for the
// loopback transport, and to try an imported schedule. Not fast.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectives/plan/schedule.h"

namespace onrt::cc {

struct RankMemory {
  std::vector<std::byte> in;
  std::vector<std::byte> out;  // in place: unused; in is the larger of the two, as placement() says
  std::vector<std::byte> scratch;
  std::vector<std::byte> partial;
};

// inputs[i] and outputs[i]: bytes of `count` elements; wide: of the accumulator's type (kPartial).
struct ReduceOperand {
  const std::byte* data = nullptr;
  bool wide = false;
};
// Folds the inputs from left to right into `result`; `final`: see StepKind::kReduce. The result may
// be one of the inputs.
using ReduceFunction = std::function<void(std::span<const ReduceOperand> inputs, std::byte* result,
                                          bool final, uint64_t count)>;

// Buffers of the right sizes, filled with `fill`.
std::vector<RankMemory> make_memory(const Schedule& schedule, std::byte fill);

// Seeds give different interleavings, the same one always the same. Steps that move data are cut
// into parts of at most `slice` elements, other steps in between (0: not cut). The schedule's
// shape is right (check_schedule(), or check_shape()). NRT_FAILURE that lists who waits for what
// when nothing can go on.
Status interpret(const Schedule& schedule, std::span<RankMemory> memory,
                 const ReduceFunction& reduce, uint64_t seed, uint64_t slice = 0);

}  // namespace onrt::cc
