// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/passes/flat.h"

namespace onrt::hir {

// A value that equals the only result of `node`, bit for bit; node -1 if there is none. May change
// `node` into a simpler one with the same result; new memory comes from `arena`.
Ref simplify(const Flat& flat, Arena& arena, Node& node);

}  // namespace onrt::hir
