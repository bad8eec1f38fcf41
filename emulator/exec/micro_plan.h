// SPDX-License-Identifier: Apache-2.0
// A micro-program turned into calls of kernels on blocks of elements, with registers assigned to a
// few buffers. Made at load; shared by all executors that run micro-programs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "emulator/exec/kernels/kernels.h"
#include "emulator/isa/program.h"

namespace onrt {

// A location is an entry of the table of block pointers. It is either a buffer of the thread's
// arena, the same for all blocks, or external: the executor sets it for each block.
struct MicroStep {
  OpKernel op = nullptr;  // one of op and move
  MoveKernel move = nullptr;
  uint16_t out = 0;
  uint16_t a = 0;
  uint16_t b = 0;
  uint16_t c = 0;
  uint64_t immediate = 0;
};

struct MicroFill {  // a constant: its location is the same for all blocks
  uint16_t location = 0;
  OpKernel kernel = nullptr;
  uint64_t value = 0;
  std::shared_ptr<const void> block;  // kBlock registers of the value; null: fill the buffer
};

struct MicroIota {  // its location is filled for each block with positions along `dimension`
  uint16_t location = 0;
  uint64_t dimension = 0;
  OpKernel convert = nullptr;  // from i64
};

struct MicroPlan {
  std::vector<MicroStep> steps;
  std::vector<MicroFill> fills;
  std::vector<MicroIota> iotas;
  std::vector<uint16_t> inputs;       // location of each input
  std::vector<uint16_t> results;      // location of each result
  std::vector<bool> result_external;  // the steps write the result to where it belongs
  std::vector<int> buffer;            // by location; -1: external
  int buffers = 0;
  int cost = 0;  // rough work per element, in units of one addition

  size_t locations() const { return buffer.size(); }
};

struct MicroRequest {
  std::span<const Dtype> input_types;
  // Inputs that lie in memory as registers do, so that kernels can read them there.
  std::span<const bool> input_external;
  // Inputs that are the same for all blocks: their buffers are never reused.
  std::span<const bool> input_constant;
  // Results that could be written in place because memory looks like the register.
  std::span<const bool> result_external;
};

MicroPlan plan_micro(const ncx::MicroProgram& program, const MicroRequest& request,
                     const KernelTable& kernels);

// Registers of this type look the same in memory.
bool register_is_memory(Dtype dtype);

// Bytes between two buffers of an arena: not a multiple of 4096, which would make all buffers
// compete for the same cache sets.
inline constexpr size_t kBufferStride = static_cast<size_t>(kBlock) * 8 + 192;

// Gives the constants their places in the table, whose entries are buffers so far; n registers
// each.
inline void place_constants(const MicroPlan& plan, void** pointers, size_t n) {
  for (const MicroFill& fill : plan.fills) {
    if (fill.block != nullptr) {
      pointers[fill.location] = const_cast<void*>(fill.block.get());  // no step writes it
    } else {
      fill.kernel(pointers[fill.location], nullptr, nullptr, nullptr, n, fill.value);
    }
  }
}

// The table's entries: buffers, kBufferStride apart, from `buffers` on. External locations get the
// first until their owner sets them.
inline void place_buffers(const MicroPlan& plan, std::byte* buffers, void** pointers) {
  for (size_t i = 0; i < plan.locations(); ++i) {
    pointers[i] = buffers + static_cast<size_t>(std::max(plan.buffer[i], 0)) * kBufferStride;
  }
}

inline void run_steps(const MicroPlan& plan, void* const* pointers, size_t n) {
  for (const MicroStep& step : plan.steps) {
    if (step.op != nullptr) {
      step.op(pointers[step.out], pointers[step.a], pointers[step.b], pointers[step.c], n,
              step.immediate);
    } else {
      step.move(pointers[step.out], pointers[step.a], 1, n);
    }
  }
}

// Memory for buffers, kept by the thread between instructions. Not reentrant: an executor asks once
// and uses it until it returns. At least `bytes`, 64-byte aligned; null when there is no memory.
std::byte* thread_arena(size_t bytes);

}  // namespace onrt
