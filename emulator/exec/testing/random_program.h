// SPDX-License-Identifier: Apache-2.0
// For tests: random views, types and micro-programs.
#pragma once

#include <random>
#include <span>
#include <string>
#include <vector>

#include "emulator/isa/program.h"

namespace onrt::testing {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::mt19937& random) : random_(random) {}

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  Dtype any_type();
  Dtype any_float();
  Dtype any_integer();

  // A view of `dims` over a new io slot: dense, transposed, sliced, reversed or, for inputs,
  // broadcast.
  ncx::View view(ncx::Program& program, Dtype dtype, std::span<const int64_t> dims,
                 ncx::SlotUsage usage);

  // One op whose operands are registers of `types`; false if the draw did not fit.
  bool add_op(ncx::MicroProgram& program, std::vector<Dtype>& types, int rank);

  // Up to `most` random ops, none of which shows the bits of a NaN.
  void add_ops(ncx::MicroProgram& program, std::vector<Dtype>& types, int rank, size_t most);

 private:
  std::mt19937& random_;
};

// Random memory, then the program by the oracle and by the engine: every SIMD level that runs here,
// with one thread and with pools of 2 and 4. Returns what differs, "" if nothing does.
std::string compare_with_oracle(const ncx::Program& program, std::mt19937& random);

// The same for memory that the caller made.
struct Memory;
std::string compare_with_oracle(const ncx::Program& program, const Memory& start);

}  // namespace onrt::testing
