// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tnx {

// Argument `list` of the call on the stack is Tensor?[]: masks become whole numbers (but for
// index_put with values that are the same for all true elements, which needs none), and indices
// that are in host memory are checked against their dimensions.
void prepare_indices(const c10::OperatorHandle& op, torch::jit::Stack& stack, size_t list);

}  // namespace tnx
