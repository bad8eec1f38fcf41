// SPDX-License-Identifier: Apache-2.0
// For tests: instructions run element by element with the boxed scalar operations, in the plainest
// way, and a small machine to run whole programs on.
#pragma once

#include <random>
#include <span>
#include <vector>

#include "emulator/exec/engine.h"
#include "emulator/isa/program.h"

namespace onrt::testing {

// The memory that a program touches, initialised alike for the oracle and for the engine.
struct Memory {
  std::vector<std::vector<std::byte>> io;
  std::vector<std::byte> constants;
  std::vector<std::byte> scratch;

  std::byte* at(const ncx::View& view);
  bool operator==(const Memory&) const = default;
};

// Zeroed memory of the sizes that `program` asks for; constants of program.constants_bytes.
Memory make_memory(const ncx::Program& program);

// Fills every io slot, scratch and constants with random elements of type `dtype`: floats of
// moderate size with some zeros, infinities and NaNs, integers of all sizes.
void randomise(std::span<std::byte> bytes, Dtype dtype, std::mt19937& random);

// Runs instruction after instruction of block 0 in the given order (no control flow).
void run_oracle(const ncx::Program& program, Memory& memory);

struct EngineSetup {
  ThreadPool* pool = nullptr;
  SimdLevel simd = detect_simd_level();
};
// Encodes, loads and executes.
Status run_engine(const ncx::Program& program, Memory& memory, const EngineSetup& setup);

// Bytes of a view's elements in row-major order, NaNs made alike (their payload is unspecified).
std::vector<std::byte> elements(const ncx::View& view, Memory& memory);

// A dense row-major view.
ncx::View dense(ncx::Space space, uint16_t slot, Dtype dtype, std::span<const int64_t> dims,
                uint64_t offset = 0);

// Calls f(index) for every index of dims in row-major order.
template <class F>
void for_each_index(std::span<const int64_t> dims, F f) {
  std::vector<int64_t> index(ncx::kMaxRank, 0);
  for (const int64_t dim : dims) {
    if (dim == 0) {
      return;
    }
  }
  for (;;) {
    f(index.data());
    size_t d = dims.size();
    while (d-- > 0) {
      if (++index[d] < dims[d]) {
        break;
      }
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) {
      return;
    }
  }
}

}  // namespace onrt::testing
