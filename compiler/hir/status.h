// SPDX-License-Identifier: Apache-2.0
// How the compiler names its failures: one constructor per nrtcc_status_t.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace onrt::hir {

// The call or the graph is malformed: NRTCC_INVALID.
inline Status invalid(std::string text) { return Status(NRT_INVALID, std::move(text)); }
// Well formed, but this compiler does not lower it: NRTCC_UNSUPPORTED.
inline Status unsupported(std::string text) {
  return Status(NRT_UNSUPPORTED_NEFF_VERSION, std::move(text));
}
// A bug of the compiler: NRTCC_INTERNAL.
inline Status internal(std::string text) { return Status(NRT_FAILURE, std::move(text)); }
// Too large for a stated limit, or out of memory: NRTCC_NO_MEMORY.
inline Status too_large(std::string text) { return Status(NRT_RESOURCE, std::move(text)); }

}  // namespace onrt::hir
