// SPDX-License-Identifier: Apache-2.0
// What counting an execution for tools costs: everything but the two timestamps.
#include "bench/harness.h"
#include "runtime/core/execution_counters.h"

int main(int argc, char** argv) {
  onrt::bench::parse_options(argc, argv, "");
  static onrt::CoreStatistics core{};
  uint64_t ns = 1000;
  const auto body = [&] {
    onrt::set_alone(core.running_model, 1001U);
    ns = ns * 5 % 9'999'991 + 1000;  // another bucket each time
    onrt::count_execution(core, {NRT_SUCCESS, ns, ns - 500, 12345});
  };
  onrt::bench::Row row;
  row.key = "observe/count_execution";
  row.title = "counting one execution";
  row.unit = "ns";
  row.higher_is_better = false;
  row.limit = 50;
  onrt::bench::report({onrt::bench::compare(
      row, {{"ours", onrt::bench::timed(body, onrt::bench::Clock::kThreadCpu)}},
      [](double seconds) { return seconds * 1e9; })});
  return 0;
}
