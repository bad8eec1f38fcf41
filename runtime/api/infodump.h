// SPDX-License-Identifier: Apache-2.0
// The block of facts in the log after a failure on the device, for support requests.
// Source of its shape: SDK documentation, "Neuron Runtime Core Dump".
#pragma once

#include "nrt/nrt_status.h"
#include "runtime/core/session.h"

namespace onrt::api {

// Failures of the device or its program, as opposed to those of the caller.
bool needs_infodump(NRT_STATUS status);

// `function` is the exported function that failed with `status`.
void nrt_infodump(const Session& session, NRT_STATUS status, const char* function);

}  // namespace onrt::api
