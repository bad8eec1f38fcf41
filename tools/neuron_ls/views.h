// SPDX-License-Identifier: Apache-2.0
// The three forms in which neuron-ls shows a host. Layout and field names: AWS Neuron SDK
// documentation, tools/neuron-sys-tools/neuron-ls.rst at commit 539a73c5.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/observe/host_view.h"

namespace onrt::tools {

// Characters of the COMMAND column, as in the documentation's samples.
inline constexpr size_t kCommandWidth = 40;
inline constexpr size_t kWideCommandWidth = 80;

std::string table_view(const observe::HostView& host, size_t command_width);
std::string topology_view(const observe::HostView& host);
// Without a newline at the end.
std::string json_view(const observe::HostView& host);

}  // namespace onrt::tools
