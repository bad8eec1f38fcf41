// SPDX-License-Identifier: Apache-2.0
// How compile time grows with a module: three shapes of 10^3, 10^4 and 10^5 instructions, from
// nothing to NEFF bytes. The goal compares nanoseconds per instruction with those of the smallest
// module of the same shape; growth in proportion is a ratio of 1.
//   bench_compile_scale [--json] [--rounds N] [SHAPE [INSTRUCTIONS]]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/modules.h"

namespace {

using onrt::bench::Row;
using onrt::bench::Shape;

// At most this much slower per instruction than the smallest module, which fits in the processor's
// caches as the largest does not.
constexpr double kMostGrowth = 2.5;
constexpr int64_t kSmallest = 1000;
constexpr int64_t kLargest = 100000;

void check(const char* what, nrtcc_status_t status) {
  if (status != NRTCC_OK) {
    fprintf(stderr, "%s: %s\n", what, nrtcc_last_error());
    exit(1);
  }
}

void compile(const Shape& shape, int64_t instructions) {
  nrtcc_graph_t* graph = nullptr;
  check("build", onrt::bench::make_module(shape, instructions, &graph));
  uint8_t* neff = nullptr;
  size_t size = 0;
  check(shape.name, nrtcc_compile(graph, nullptr, &neff, &size));
  nrtcc_free(neff);
  nrtcc_graph_destroy(graph);
}

Row row_of(const Shape& shape, int64_t instructions, double smallest) {
  Row row;
  row.key = std::string("compile_scale/") + shape.name + "/" + std::to_string(instructions);
  row.title = std::string("compile ") + shape.title + ", " + std::to_string(instructions);
  row.unit = "ns/instruction";
  row.higher_is_better = false;
  const int calls = static_cast<int>(kLargest / instructions / 10) | 1;
  row = onrt::bench::compare(
      row, {{"ours", onrt::bench::latency([&] { compile(shape, instructions); }, calls)}},
      [&](double seconds) { return seconds * 1e9 / static_cast<double>(instructions); });
  if (instructions > kSmallest && smallest > 0) {
    row.peers.push_back({"of " + std::to_string(kSmallest), smallest});
    row.goal = shape.proportional ? 1 / kMostGrowth : 0;
  }
  fprintf(stderr, "%s: %.4f s\n", row.title.c_str(),
          row.ours * static_cast<double>(instructions) * 1e-9);
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = onrt::bench::parse_options(argc, argv, "[SHAPE [INSTRUCTIONS]]");
  std::vector<Row> rows;
  for (const Shape& shape : onrt::bench::kShapes) {
    if (!options.rest.empty() && options.rest[0] != shape.name) {
      continue;
    }
    if (options.rest.size() > 1) {
      rows.push_back(row_of(shape, atoll(options.rest[1].c_str()), 0));
      continue;
    }
    double smallest = 0;
    for (int64_t n = kSmallest; n <= kLargest; n *= 10) {
      rows.push_back(row_of(shape, n, smallest));
      smallest = n == kSmallest ? rows.back().ours : smallest;
    }
  }
  onrt::bench::report(rows);
  return 0;
}
