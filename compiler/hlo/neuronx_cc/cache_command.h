// SPDX-License-Identifier: Apache-2.0
// neuronx-cc cache: what is in a folder of compiled programs.
#pragma once

#include <string>

#include "compiler/hlo/neuronx_cc/options.h"

namespace onrt::cc {

inline constexpr int kExitFailure = 1;

// The folder that a compilation looks in: --cache-dir, else NEURON_COMPILE_CACHE_URL; "": none.
std::string cache_folder(const Options& options);

// Exit status of `neuronx-cc cache list|info|clear`.
int run_cache(const Options& options);

}  // namespace onrt::cc
