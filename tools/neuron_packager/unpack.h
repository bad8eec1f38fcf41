// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/neff/neff.h"

namespace onrt::tools {

// Writes every member below `folder`, which must not exist yet: nothing is ever overwritten. On
// failure what was written stays, and the message names the file that could not be.
Status unpack_neff(const NeffArchive& archive, const std::string& folder);

}  // namespace onrt::tools
