// SPDX-License-Identifier: Apache-2.0
// Executors of reduce-window that make_executor() chooses between.
#pragma once

#include <memory>

#include "emulator/exec/executor.h"

namespace onrt {

// For windows along one dimension that all begin with the first element, or all end with the last:
// one pass. Null for any other.
std::unique_ptr<Executor> make_window_scan(const ncx::ReduceWindow& op,
                                           const ExecutorOptions& options);

}  // namespace onrt
