// SPDX-License-Identifier: Apache-2.0
// The loop of executors whose chunks each have a worker with an arena of its own, which may stop in
// the middle of a unit.
#pragma once

#include <atomic>

#include "emulator/exec/executor.h"
#include "emulator/exec/index_walk.h"
#include "emulator/exec/micro_plan.h"

namespace onrt {

// Walks the indices of `dims`, `units` of them, in chunks on the pool. make(arena) gives the worker
// of a chunk, with `buffers` buffers; step(worker, index) does one unit; worker.stopped() says that
// it saw the stop signal.
template <class Make, class Step>
Status for_workers(const ExecContext& context, const std::vector<int64_t>& dims, int64_t units,
                   int64_t work, size_t buffers, const Make& make, const Step& step) {
  // Set by chunks that were stopped in the middle; relaxed: read after the join.
  std::atomic<bool> stopped{false};
  ONRT_RETURN_IF_ERROR(for_units(context, units, work, [&](int64_t first, int64_t last) {
    std::byte* arena = thread_arena(buffers * kBufferStride);
    if (arena == nullptr) {
      return false;
    }
    auto worker = make(arena);
    IndexLoop index(dims, first);
    for (int64_t unit = first; unit < last && !worker.stopped(); ++unit, index.advance()) {
      step(worker, index.index());
    }
    if (worker.stopped()) {
      stopped.store(true, std::memory_order_relaxed);
    }
    return true;
  }));
  return stopped.load(std::memory_order_relaxed) ? context.stop->status() : ok_status();
}

}  // namespace onrt
