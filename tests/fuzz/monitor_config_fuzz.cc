// SPDX-License-Identifier: Apache-2.0
// Configuration files of neuron-monitor: a value or one sentence.
#include <cstdint>
#include <cstdlib>

#include "tools/neuron_monitor/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config = onrt::tools::parse_config({reinterpret_cast<const char*>(data), size});
  if (!config.ok() && config.status().message().empty()) {
    std::abort();
  }
  return 0;
}
