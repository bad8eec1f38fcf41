// SPDX-License-Identifier: Apache-2.0
// Compiles serialized HLO modules in process, from bytes to NEFF bytes:
//   bench_hlo_compile MODULE.pb...
// One request a line on stdin (a path), one line back: median seconds of decoding, of everything.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "compiler/hlo/import.h"
#include "opennrt/nrtcc.h"

namespace {

using Seconds = std::chrono::duration<double>;

struct Sample {
  double decode = 0;
  double all = 0;
};

// Ends the program with the compiler's words when it refuses the module.
Sample compile_once(const std::vector<char>& file) {
  const auto start = std::chrono::steady_clock::now();
  const auto module = onrt::hlo::parse_module(std::as_bytes(std::span(file)));
  if (!module.ok()) {
    std::cerr << module.status().message() << '\n';
    std::exit(1);
  }
  const auto graph = onrt::hlo::import_module(*module);
  if (!graph.ok()) {
    std::cerr << graph.status().message() << '\n';
    std::exit(1);
  }
  const auto decoded = std::chrono::steady_clock::now();
  nrtcc_options_t options{};
  options.struct_size = sizeof options;
  options.target = "trn2";
  options.optimization = -1;
  uint8_t* neff = nullptr;
  size_t size = 0;
  if (nrtcc_compile(graph->get(), &options, &neff, &size) != NRTCC_OK) {
    std::cerr << nrtcc_last_error() << '\n';
    std::exit(1);
  }
  nrtcc_free(neff);
  const auto end = std::chrono::steady_clock::now();
  return {Seconds(decoded - start).count(), Seconds(end - start).count()};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main() {
  std::string path;
  while (std::getline(std::cin, path)) {
    std::ifstream in(path, std::ios::binary);
    const std::vector<char> file((std::istreambuf_iterator<char>(in)), {});
    std::vector<double> decode;
    std::vector<double> all;
    double spent = 0;
    while (all.size() < 5 || (spent < 0.2 && all.size() < 101)) {
      const Sample sample = compile_once(file);
      decode.push_back(sample.decode);
      all.push_back(sample.all);
      spent += sample.all;
    }
    std::printf("%.9f %.9f\n", median(decode), median(all));
    std::fflush(stdout);
  }
  return 0;
}
