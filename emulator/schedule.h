// SPDX-License-Identifier: Apache-2.0
// Discrete-event simulation of the engine streams of a program: the order in which the engine runs
// the instructions, and the virtual timeline of one execution.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/isa/program.h"
#include "runtime/base/status.h"

namespace onrt {

struct TimelineEntry {
  uint32_t block = 0;
  uint32_t instruction = 0;  // position in the block
  ncx::Engine engine = ncx::Engine::kDve;
  uint64_t start_ns = 0;  // from the start of the block
  uint64_t end_ns = 0;
  uint64_t dma_bytes = 0;  // that the instruction moves between HBM and SBUF
};

struct BlockTimeline {
  std::vector<TimelineEntry> entries;  // in order of start: the order of execution
  uint64_t device_ns = 0;
};

struct Timeline {
  std::vector<BlockTimeline> blocks;
  uint64_t device_ns = 0;                         // of the main block
  std::array<uint64_t, ncx::kEngines> busy_ns{};  // main block, per engine
  uint64_t dma_busy_ns = 0;
  uint64_t dma_bytes = 0;
};

// Errors: NRT_INVALID for a deadlock; names the instructions that wait and their semaphores.
Result<Timeline> schedule(const ncx::Program& program);

}  // namespace onrt
