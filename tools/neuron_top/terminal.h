// SPDX-License-Identifier: Apache-2.0
// The interactive neuron-top. The only file that knows ncurses is terminal.cc.
#pragma once

#include <chrono>
#include <memory>

#include "tools/neuron_top/screen.h"

namespace onrt::tools {

// Until the user presses q, or a signal comes. NRT_FAILURE when the terminal can't be used.
Status run_terminal(const Context& context, std::shared_ptr<const Look> first,
                    std::chrono::milliseconds interval);

}  // namespace onrt::tools
