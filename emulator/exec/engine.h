// SPDX-License-Identifier: Apache-2.0
// A loaded NCX program, ready to run: decoded, verified, scheduled, kernels resolved.
//
// load() does all work that does not depend on addresses; execute() binds pointers and walks the
// flat order that the discrete-event simulation found (emulator/schedule.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "emulator/exec/simd_level.h"
#include "emulator/isa/program.h"
#include "emulator/schedule.h"
#include "runtime/base/status.h"

namespace onrt {

class ThreadPool;  // emulator/exec/thread_pool.h

// The memory of one execution. Nothing is copied; all of it outlives execute().
struct EngineBinding {
  std::span<std::byte* const> io;      // by slot; inputs, then outputs
  std::span<const uint64_t> io_bytes;  // size of each, at least the slot's
  const std::byte* constants = nullptr;
  std::byte* scratch = nullptr;
  uint64_t scratch_bytes = 0;  // at least program().scratch_bytes
};

struct EngineRun {
  ThreadPool* pool = nullptr;  // null: everything on the calling thread
  uint64_t sequence = 0;       // number of this execution; feeds HLO rng
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* abort = nullptr;  // set by another thread: stop soon
};

// Immutable after load(); execute() is thread-safe (different bindings).
class EngineProgram {
 public:
  // Both spans are untrusted; neither needs to outlive the call.
  // Errors: NRT_INVALID (offset or instruction named; deadlock names the waiting instructions),
  // NRT_UNSUPPORTED_NEFF_VERSION. `simd` must run here; it changes speed, never results.
  static Result<std::unique_ptr<EngineProgram>> load(std::span<const std::byte> code,
                                                     std::span<const std::byte> constants,
                                                     SimdLevel simd = detect_simd_level());
  virtual ~EngineProgram() = default;

  virtual const ncx::Program& program() const = 0;
  // Of one execution by the timing model. With loops or branches: of each block run once.
  virtual const Timeline& timeline() const = 0;

  // Device time of the execution in ns, loops and branches as taken.
  // Errors: NRT_EXEC_BAD_INPUT (a slot missing or too small; names it), NRT_TIMEOUT (deadline),
  // NRT_FAILURE (aborted). After an error the outputs are unspecified.
  virtual Result<uint64_t> execute(const EngineBinding& binding, const EngineRun& run) const = 0;
};

}  // namespace onrt
