// SPDX-License-Identifier: Apache-2.0
// Convolutions of many groups with few features each (depthwise and its gradients): vectors run
// along the groups, which are brought side by side first.
#pragma once

#include "emulator/exec/executor.h"

namespace onrt {

// Whether this executor is the better one.
bool conv_is_grouped(const ncx::Conv& op);

std::unique_ptr<Executor> make_grouped_conv(const ncx::Conv& op, const ExecutorOptions& options);

}  // namespace onrt
