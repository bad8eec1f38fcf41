// SPDX-License-Identifier: Apache-2.0
// Running a loaded model on its core.
#pragma once

#include "runtime/core/model.h"
#include "runtime/core/tensor_set.h"

namespace onrt {

// Runs once and returns when the outputs are written. Executions on one core run one after another.
// NRT_INVALID: a tensor is missing, empty, freed or on another HBM; NRT_EXEC_BAD_INPUT: it has the
// wrong size; NRT_TIMEOUT: NEURON_RT_EXEC_TIMEOUT passed; NRT_EXEC_COMPLETED_WITH_NUM_ERR: done,
// but an output holds NaN (only when asked for); NRT_EXEC_UNIT_UNRECOVERABLE: the core is lost.
Status execute_model(Session& session, Model& model, TensorSet& inputs, TensorSet& outputs);

// Runs `count` times; output n - 1 is input n. Which output feeds which input: the model's aliases
// if it has any, else output i feeds input i, which must have its type and shape. The caller's
// input tensors are not written (an aliased pair that is one tensor is). NRT_INVALID for other
// models.
Status execute_model_repeatedly(Session& session, Model& model, TensorSet& inputs,
                                TensorSet& outputs, int count);

}  // namespace onrt
