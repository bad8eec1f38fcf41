// SPDX-License-Identifier: Apache-2.0
// Graph -> HloModuleProto: what the vendor's compiler is given on a machine with Trainium.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/hir/graph.h"
#include "compiler/hlo/hlo.pb.h"
#include "runtime/base/status.h"

namespace onrt::hlo {

// Every tensor gets the row-major layout, the names contract of import.h is kept, and ids are
// small and module-wide. import_module() of the result gives an equal graph.
// Errors: NRT_INVALID for a graph that hir::verify() refuses.
Result<opennrt::hlo::Module> export_graph(const hir::Graph& graph);

// The serialized module of a graph in nrtcc's text form; the same text gives the same bytes.
Result<std::string> export_text(std::string_view text);

// HLO text of the opcodes that are lowered, sorted.
std::vector<std::string> supported_opcodes();

}  // namespace onrt::hlo
