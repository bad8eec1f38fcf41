// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/passes/flat.h"

namespace onrt::hir {

// If all operands of `node` are small constants and the operation is cheap, evaluates it with the
// reference interpreter's function and makes `node` a constant.
Status fold(const Flat& flat, Arena& arena, Node& node);

}  // namespace onrt::hir
