// SPDX-License-Identifier: Apache-2.0
// The last step of flattening: what is live, how often values are used, in which order regions run.
#pragma once

#include "compiler/passes/flat.h"

namespace onrt::hir {

void finish(Flat& flat);

}  // namespace onrt::hir
