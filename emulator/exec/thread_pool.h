// SPDX-License-Identifier: Apache-2.0
// The worker pool of the emulated engines: one per process, made by the emulator, shared by all of
// its cores.
//
// Work is cut into chunks by the caller. The cut must depend on the work alone, never on
// threads(): then the result is the same, bit for bit, with one thread and with many.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/base/status.h"

namespace onrt {

// Thread-safe: several threads may call parallel_for() at once. In a forked child the pool has no
// workers left; parallel_for() then runs every chunk on the calling thread.
class ThreadPool {  // NOLINT(clang-analyzer-optin.performance.Padding): signal_ has its own line
 public:
  // `threads` includes the thread that calls parallel_for(); values below 1 count as 1. Where the
  // system refuses a thread (ulimit -u, ulimit -v), the pool has those that it got: see threads().
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls `function(chunk, lane)` once for each chunk in [0, chunks), in any order, and returns
  // when all calls have returned. `lane` is in [0, threads()); two calls that run at the same time
  // for one parallel_for() never have the same lane, so it can choose private scratch memory. Runs
  // inline when there is nothing to share: one chunk, one thread, or a call from inside a chunk.
  // `function` must not throw and must not fork.
  template <class Function>
  void parallel_for(size_t chunks, const Function& function) {
    if (chunks <= 1 || threads_ == 1 || inside_chunk()) {
      for (size_t chunk = 0; chunk < chunks; ++chunk) {
        function(chunk, 0);
      }
      return;
    }
    run(chunks, Task{[](const void* context, size_t chunk, int lane) {
                       (*static_cast<const Function*>(context))(chunk, lane);
                     },
                     &function});
  }

 private:
  struct Task {
    void (*call)(const void* context, size_t chunk, int lane);
    const void* context;
  };
  struct Slot;

  static bool inside_chunk();
  void run(size_t chunks, Task task);
  void run_in_slot(Slot& slot, uint32_t chunks, size_t first_chunk, Task task);
  static uint32_t work_on(Slot& slot, int lane);
  bool work_on_any(int lane);
  void worker_main(int lane);
  void wait_for_signal(uint32_t seen);
  static void wait_until_done(Slot& slot);

  int threads_ = 1;    // set by the constructor
  const pid_t owner_;  // a forked child must not join threads that it does not have
  std::unique_ptr<Slot[]> slots_;
  // Counts submissions; workers sleep on it. Paired with sleepers_: see wait_for_signal().
  alignas(64) std::atomic<uint32_t> signal_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

// Threads for a new pool: `setting` (text of OPENNRT_EMU_THREADS) if not empty, else the number of
// processors this process may run on divided by `local_world_size` (text of LOCAL_WORLD_SIZE, which
// launchers such as torchrun set; ignored unless it is a positive number), at least 1.
// NRT_INVALID when `setting` is not a number from 1 to 1024.
Result<int> choose_thread_count(std::string_view setting, std::string_view local_world_size);

}  // namespace onrt
