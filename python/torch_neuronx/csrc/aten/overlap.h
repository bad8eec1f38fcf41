// SPDX-License-Identifier: Apache-2.0
// Tensors that are written twice in one place, or written where they are read: refused as on the
// CPU, with torch's own messages.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tnx {

// An in-place operation's arguments that are written, each by itself.
void check_written(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
// An out= operation's outs, by themselves and with what is read.
void check_outs(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
// Types of outs that torch's own kernel refuses, though they can be converted to.
void check_out_types(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
// A copy's two sides.
void check_copy(const at::Tensor& source, const at::Tensor& target);

}  // namespace tnx
