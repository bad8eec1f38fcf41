// SPDX-License-Identifier: Apache-2.0
// What an instruction becomes at load, and what it is given when it runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "emulator/exec/kernels/kernels.h"
#include "emulator/exec/thread_pool.h"
#include "emulator/isa/program.h"
#include "runtime/base/status.h"

namespace onrt {

// Tells long work to stop. Thread-safe.
class StopSignal {
 public:
  static constexpr uint32_t kCallsPerLook = 16;

  StopSignal(std::chrono::steady_clock::time_point deadline, const std::atomic<bool>* abort)
      : deadline_(deadline), abort_(abort) {}

  bool raised() const {
    const bool now = (abort_ != nullptr && abort_->load(std::memory_order_relaxed)) ||
                     (deadline_ != std::chrono::steady_clock::time_point::max() &&
                      std::chrono::steady_clock::now() >= deadline_);
    if (now) {
      seen_.store(true, std::memory_order_relaxed);
    }
    return now;
  }
  // True if raised() was ever true: work that stopped early for it may be incomplete.
  bool seen() const { return seen_.load(std::memory_order_relaxed); }
  // Between instructions, by the one thread that walks them. The clock costs as much as a small
  // instruction, so it is read only every few calls; a long instruction asks raised() itself.
  bool raised_between() const {
    const uint32_t calls = calls_.load(std::memory_order_relaxed);
    calls_.store(calls + 1, std::memory_order_relaxed);
    return seen() || (calls % kCallsPerLook == 0 && raised());
  }
  // Why; call only after raised() was true.
  Status status() const {
    if (abort_ != nullptr && abort_->load(std::memory_order_relaxed)) {
      return Status(NRT_FAILURE, "the execution was aborted");
    }
    return Status(NRT_TIMEOUT, "the execution passed its deadline");
  }

 private:
  std::chrono::steady_clock::time_point deadline_;
  const std::atomic<bool>* abort_;  // written by another thread; a late sight of it is harmless
  // Relaxed: what was computed before is read only after the threads have joined.
  mutable std::atomic<bool> seen_{false};
  mutable std::atomic<uint32_t> calls_{0};
};

// The memory and helpers of one execution.
struct ExecContext {
  std::span<std::byte* const> io;
  const std::byte* constants = nullptr;
  std::byte* scratch = nullptr;
  ThreadPool* pool = nullptr;
  const StopSignal* stop = nullptr;
  uint64_t sequence = 0;

  // First byte of element 0 of a view. Constants are never written: the verifier saw to it.
  std::byte* at(const ncx::View& view) const {
    switch (view.space) {
      case ncx::Space::kIo:
        return io[view.slot] + view.offset;
      case ncx::Space::kScratch:
        return scratch + view.offset;
      default:
        return const_cast<std::byte*>(constants) + view.offset;
    }
  }
};

// Immutable after construction; execute() is thread-safe for different contexts.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual Status execute(const ExecContext& context) const = 0;
};

struct ExecutorOptions {
  SimdLevel simd = SimdLevel::kPlain;
  const KernelTable* kernels = nullptr;
};

std::unique_ptr<Executor> make_executor(const ncx::Eltwise& op, const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::Copy& op, const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::Reduce& op, const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::Gemm& op, const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::Conv& op, const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::Linalg& op, const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::Gather& op, const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::Scatter& op, const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::DynamicSlice& op,
                                        const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::DynamicUpdateSlice& op,
                                        const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::Rng& op, const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::Sort& op, const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::ReduceWindow& op,
                                        const ExecutorOptions& options);
std::unique_ptr<Executor> make_executor(const ncx::SelectScatter& op,
                                        const ExecutorOptions& options);

// Bytes, or additions of 4 bytes, below which work is not worth sharing between threads.
inline constexpr int64_t kChunkWork = 64 * 1024;

// Cuts `units` of `work` each into chunks of at least kChunkWork. Depends on the work alone, so
// that results cannot depend on the number of threads.
inline int64_t units_per_chunk(int64_t units, int64_t work) {
  constexpr int64_t kMaxChunks = 4096;
  const int64_t least = (kChunkWork + work - 1) / std::max<int64_t>(work, 1);
  return std::max({int64_t{1}, least, (units + kMaxChunks - 1) / kMaxChunks});
}

Status no_buffer_memory();

// Calls function(first, last) for ranges of units that cover [0, units), on the pool if there is
// one and the work is worth it. The function returns false when it has no memory. Stops early when
// the signal is raised.
template <class Function>
Status for_units(const ExecContext& context, int64_t units, int64_t work,
                 const Function& function) {
  const int64_t per_chunk = units_per_chunk(units, work);
  if (units <= per_chunk) {
    return function(int64_t{0}, units) ? ok_status() : no_buffer_memory();
  }
  const int64_t chunks = (units + per_chunk - 1) / per_chunk;
  // Set and read by the chunks; relaxed: only a hint to skip, and read last after the join.
  std::atomic<bool> stopped{false};
  std::atomic<bool> failed{false};
  const auto run = [&](size_t chunk, int) {
    if (stopped.load(std::memory_order_relaxed) || context.stop->raised()) {
      stopped.store(true, std::memory_order_relaxed);
      return;
    }
    const int64_t first = static_cast<int64_t>(chunk) * per_chunk;
    if (!function(first, std::min(units, first + per_chunk))) {
      failed.store(true, std::memory_order_relaxed);
    }
  };
  if (context.pool != nullptr) {
    context.pool->parallel_for(static_cast<size_t>(chunks), run);
  } else {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      run(static_cast<size_t>(chunk), 0);
    }
  }
  if (failed.load(std::memory_order_relaxed)) {
    return no_buffer_memory();
  }
  return stopped.load(std::memory_order_relaxed) ? context.stop->status() : ok_status();
}

}  // namespace onrt
