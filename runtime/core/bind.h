// SPDX-License-Identifier: Apache-2.0
// From tensor sets to the addresses that a program is started with.
#pragma once

#include "runtime/core/io_table.h"
#include "runtime/core/model.h"
#include "runtime/core/tensor_set.h"

namespace onrt {

// Fills `io`, whose tensors are then in use until io.release(). Host tensors get a copy in HBM. An
// aliased pair of two tensors: the input is copied to the output, which the program then uses as
// both, so the caller's input stays as it is.
Status bind_tensors(Session& session, const Model& model, TensorSet& inputs, TensorSet& outputs,
                    IoTable& io);

// After the execution: brings outputs that were staged back to host memory.
Status collect_staged(const Model& model, IoTable& io);

}  // namespace onrt
