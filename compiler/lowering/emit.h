// SPDX-License-Identifier: Apache-2.0
// Kernels with placed buffers as an NCX program.
#pragma once

#include "compiler/lowering/lowerer.h"
#include "emulator/isa/program.h"

namespace onrt::lowering {

// Instructions with engines and semaphores. Io slots are left to the caller.
// Errors: unsupported for an operation that needs more dimensions than an instruction has.
Result<ncx::Program> emit(const Flat& flat, Plan& plan);

// Waits and increments such that instructions that touch the same memory run in order. `alias[s]`
// is the slot whose memory slot s may be. A loop or conditional touches what its blocks touch.
// Fills in the instructions of every block.
void add_semaphores(std::span<const uint16_t> alias, ncx::Program& program);

}  // namespace onrt::lowering
