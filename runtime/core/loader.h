// SPDX-License-Identifier: Apache-2.0
// NEFF -> device memory -> a model that can run; and the way back.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/core/model.h"

namespace onrt {

// `core` is the local index, -1 for the first core without a model (or with the fewest).
// NRT_INVALID: the NEFF does not fit this runtime (logical core size, architecture) or is
// malformed; NRT_LOAD_NOT_ENOUGH_NC: it needs more cores than there are; NRT_RESOURCE: no device
// memory. A failure leaves nothing behind.
Result<Model*> load_package(Session& session, const NeffPackage& package, int core);

// The same from the bytes of a file, which are not needed afterwards.
Result<Model*> load_neff(Session& session, std::span<const std::byte> file, int core);

// Waits for executions in flight. `remaining` users of the model's gate are the caller's own.
// NRT_INVALID_HANDLE when another thread unloads it already. When the device fails to unload the
// program, that is reported and the memory is given back all the same.
Status unload_model(Session& session, Model* model, uint32_t remaining);

}  // namespace onrt
