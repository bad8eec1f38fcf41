// SPDX-License-Identifier: Apache-2.0
// Built without libfuse.
#include "tools/opennrt_run/live_tree.h"

namespace onrt::tools {

std::string live_tree_problem() { return "built without libfuse3"; }

Status serve_live_tree(const Context&, const std::string&, const std::function<void()>&) {
  return Status(NRT_FAILURE, live_tree_problem());
}

}  // namespace onrt::tools
