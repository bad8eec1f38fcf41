// SPDX-License-Identifier: Apache-2.0
// From a graph in memory to a model that can be executed, in one process: nrtcc_compile + nrt_load
// of three small operations.
#include "bench/harness.h"
#include "bench/machine.h"

namespace {

using onrt::bench::check;
using onrt::bench::Measure;
using onrt::bench::Row;

double microseconds(double seconds) { return seconds * 1e6; }

Row row_of(const char* key, const char* title, const Measure& measure, double limit) {
  Row row;
  row.key = key;
  row.title = title;
  row.unit = "us";
  row.higher_is_better = false;
  row.limit = limit;
  return onrt::bench::compare(row, {{"ours", measure}}, microseconds);
}

}  // namespace

int main(int argc, char** argv) {
  onrt::bench::parse_options(argc, argv, "");
  onrt::bench::Machine machine;
  nrtcc_graph_t* graph = onrt::bench::make_three_op_graph(1024);
  const std::vector<uint8_t> neff = onrt::bench::compile(graph);
  const auto load_and_unload = [](const std::vector<uint8_t>& bytes) {
    nrt_model_t* model = nullptr;
    check("load", nrt_load(bytes.data(), bytes.size(), 0, 1, &model));
    check("unload", nrt_unload(model));
  };
  nrtcc_cache_t* cache = nullptr;
  check("cache", nrtcc_cache_open(nullptr, &cache));
  const auto from_cache = [&] {
    uint8_t* bytes = nullptr;
    size_t size = 0;
    check("cached", nrtcc_compile_cached(cache, graph, nullptr, &bytes, &size, nullptr));
    nrtcc_free(bytes);
  };
  from_cache();
  constexpr int kCalls = 201;
  onrt::bench::report({
      row_of("compile/build", "build a graph of 3 ops",
             onrt::bench::latency(
                 [] { nrtcc_graph_destroy(onrt::bench::make_three_op_graph(1024)); }, kCalls),
             0),
      row_of("compile/compile", "nrtcc_compile, 3 ops",
             onrt::bench::latency([&] { onrt::bench::compile(graph); }, kCalls), 0),
      row_of("compile/cached", "nrtcc_compile_cached that hits in memory, 3 ops",
             onrt::bench::latency(from_cache, kCalls), 10),
      row_of("compile/load", "nrt_load + nrt_unload, 3 ops",
             onrt::bench::latency([&] { load_and_unload(neff); }, kCalls), 0),
      row_of("compile/all", "build, compile, load and unload, 3 ops",
             onrt::bench::latency(
                 [&] {
                   nrtcc_graph_t* own = onrt::bench::make_three_op_graph(1024);
                   load_and_unload(onrt::bench::compile(own));
                   nrtcc_graph_destroy(own);
                 },
                 kCalls),
             200),
  });
  nrtcc_cache_close(cache);
  nrtcc_graph_destroy(graph);
  return 0;
}
