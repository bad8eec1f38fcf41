// SPDX-License-Identifier: Apache-2.0
// HloModuleProto -> nrtcc graph. Input is hostile: every file gives a graph or a located message,
// in time and memory that the file's size bounds.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "compiler/hlo/hlo.pb.h"
#include "opennrt/nrtcc.h"
#include "runtime/base/status.h"

namespace onrt::hlo {

struct GraphDeleter {
  void operator()(nrtcc_graph_t* graph) const { nrtcc_graph_destroy(graph); }
};
using GraphPtr = std::unique_ptr<nrtcc_graph_t, GraphDeleter>;

// Errors: NRT_INVALID for bytes that are no serialized module.
Result<opennrt::hlo::Module> parse_module(std::span<const std::byte> file);

// Tensor names: `neff_input_names` of a parameter and `neff_output_names` (comma separated) of the
// entry's root, among their frontend attributes; absent, nrtcc's defaults hold. Every tensor is
// row-major: layouts of results and of inner values are ignored, since they only say how XLA's own
// backends would place them; a parameter of another layout is refused.
// Errors: NRT_INVALID for a module that is not well formed; NRT_UNSUPPORTED_NEFF_VERSION for one
// that this compiler does not take. Messages name module, computation, instruction and opcode.
Result<GraphPtr> import_module(const opennrt::hlo::Module& module);

}  // namespace onrt::hlo
