// SPDX-License-Identifier: Apache-2.0
// The inverse of attributes.h.
#pragma once

#include "compiler/hir/graph.h"
#include "compiler/hlo/hlo.pb.h"
#include "runtime/base/status.h"

namespace onrt::hlo {

// Id of a computation in an exported module: 0 would read as absent.
inline int64_t exported_id(hir::ComputationId computation) { return computation + 1; }

// Fills everything of `out` that comes from attributes; its shape is already set.
Status export_attributes(const hir::Instruction& instruction, opennrt::hlo::Instruction& out);

}  // namespace onrt::hlo
