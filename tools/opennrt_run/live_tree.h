// SPDX-License-Identifier: Apache-2.0
// The tree of the devices, live: each read looks at the machine. A file system in user space
// (FUSE) of this process.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/log.h"
#include "runtime/base/status.h"

namespace onrt::tools {

// Why live trees can't be served here; "" when they can, as far as can be told.
std::string live_tree_problem();

// Serves the tree at `place` until it is unmounted or a signal comes; calls `ready` when it can be
// used. NRT_FAILURE when it could not be mounted.
Status serve_live_tree(const Context& context, const std::string& place,
                       const std::function<void()>& ready);

}  // namespace onrt::tools
