// SPDX-License-Identifier: Apache-2.0
// Ops of a micro-program that one kernel computes together: fewer passes over a block. Values
// between them are those of the ops one by one, so no bit changes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/exec/kernels/kernels.h"
#include "emulator/isa/program.h"

namespace onrt {

// Stands for an op and the ops that it absorbed.
struct FusedStep {
  OpKernel kernel = nullptr;  // null: the op is computed by itself
  std::array<uint16_t, 3> operands{};
  int arity = 0;
  uint64_t immediate = 0;
};

struct MicroFusion {
  std::vector<FusedStep> steps;  // by op
  std::vector<bool> absorbed;    // by op: its value isn't needed by itself
};

// `roots`: by register, the register whose value it shares. Both outlive the call only.
MicroFusion fuse_micro(const ncx::MicroProgram& program, std::span<const Dtype> input_types,
                       std::span<const uint16_t> roots, const KernelTable& kernels);

}  // namespace onrt
