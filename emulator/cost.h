// SPDX-License-Identifier: Apache-2.0
// What a program costs by the timing model, known before it runs: device time, what each engine and
// the DMA engines do, floating-point operations, memory. Not cycle accurate.
#pragma once

#include <array>
#include <cstdint>

#include "emulator/isa/program.h"
#include "emulator/schedule.h"

namespace onrt {

struct ProgramCost {
  uint64_t device_ns = 0;
  std::array<uint64_t, ncx::kEngines> busy_ns{};  // control flow counts for the blocks it runs
  uint64_t dma_busy_ns = 0;
  uint64_t hbm_bytes = 0;  // read and written between HBM and SBUF
  // A multiply-accumulate is two; a scalar operation on an element is one; moves are none.
  double flops = 0;
  uint64_t code_bytes = 0;
  uint64_t constant_bytes = 0;
  uint64_t scratch_bytes = 0;
  uint64_t tensor_bytes = 0;  // of inputs and outputs; an aliased output has no memory of its own
  // Turns are known only at run time: each loop counts as one turn, each conditional as its
  // costliest branch.
  bool has_loops = false;

  uint64_t peak_bytes() const { return code_bytes + constant_bytes + scratch_bytes + tensor_bytes; }
};

// Sizes of code and tensors are left at 0: the NEFF knows them.
ProgramCost cost_of(const ncx::Program& program, const Timeline& timeline);

}  // namespace onrt
