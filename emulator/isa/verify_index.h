// SPDX-License-Identifier: Apache-2.0
// Parts of the verifier: gather and scatter dimension numbers, small helpers.
#pragma once

#include <string>
#include <string_view>

#include "emulator/isa/program.h"
#include "runtime/base/status.h"

namespace onrt::ncx {

// Rules of XLA's shape inference for gather and scatter; the views themselves are checked before.
Status verify_gather(const Gather& op);
Status verify_scatter(const Scatter& op);

bool same_dims(const View& a, const View& b);

// Control characters as \xNN.
std::string printable(std::string_view text);

}  // namespace onrt::ncx
