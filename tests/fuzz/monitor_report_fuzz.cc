// SPDX-License-Identifier: Apache-2.0
// Lines on the standard input of the Prometheus exporter.
#include <cstdint>
#include <cstdlib>

#include "tools/neuron_monitor_prometheus/metrics.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  onrt::tools::Metrics metrics;
  const auto taken = metrics.update({reinterpret_cast<const char*>(data), size}, 1);
  if (!taken.ok() && taken.message().empty()) {
    std::abort();
  }
  static_cast<void>(metrics.page(onrt::tools::ExpositionFormat::kText));
  static_cast<void>(metrics.page(onrt::tools::ExpositionFormat::kOpenMetrics));
  return 0;
}
