// SPDX-License-Identifier: Apache-2.0
// nccom-test: measures and checks collective operations.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/format.h"
#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/nccom_test/launch.h"

namespace onrt::tools::nccom {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int wrong_usage(std::string_view why) {
  std::fprintf(stderr, "nccom-test: %s; see nccom-test --help\n", std::string(why).c_str());
  return kUsage;
}

uint64_t seed_of(const Series& series) {
  return series.seed.value_or(
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()));
}

// One line that is written over, where somebody looks.
void show_progress(const Options& options, size_t done) {
  const size_t sizes = options.series.sizes.size();
  if (isatty(STDERR_FILENO) == 0 || sizes < 2) {
    return;
  }
  std::fprintf(stderr, "\r\033[K");
  if (done < sizes) {
    std::fprintf(stderr, "[%zu/%zu] %s of %llu bytes", done, sizes,
                 row_of(options.series.operation).name,
                 static_cast<unsigned long long>(options.series.sizes[done]));
  }
  std::fflush(stderr);
}

void introduce(const Options& options, uint64_t seed) {
  const std::string type = variable("OPENNRT_EMULATE", "");
  const bool emulated = !type.empty() && options.buffers == Buffers::kDevice;
  std::fprintf(stderr,
               "nccom-test: %d ranks on this host, path host, wall clock, buffers in %s%s%s\n",
               options.workers, options.buffers == Buffers::kHost ? "host memory" : "HBM",
               emulated ? " of an emulated " : "", emulated ? type.c_str() : "");
  if (options.series.check == Check::kRandom) {
    std::fprintf(stderr, "nccom-test: --seed %llu\n", static_cast<unsigned long long>(seed));
  }
}

int measure(const Options& options) {
  const uint64_t seed = seed_of(options.series);
  const Report report(options, seed);
  introduce(options, seed);
  bool printed = print(report.heading());
  show_progress(options, 0);
  const auto outcome = run_series(
      options, seed,
      [&](const Row& row) {
        if (isatty(STDERR_FILENO) != 0) {
          std::fprintf(stderr, "\r\033[K");
        }
        printed = print(report.line(row)) && printed;
      },
      [&](size_t done) { show_progress(options, done); });
  if (!outcome.ok()) {
    std::fprintf(stderr, "nccom-test: %s\n", std::string(outcome.status().message()).c_str());
    return kFailed;
  }
  printed = print(report.summary(outcome->rows)) && printed;
  if (!options.report_file.empty()) {
    const std::string json = report.json(outcome->rows);
    const Status written =
        write_file(options.report_file, std::as_bytes(std::span(json.data(), json.size())));
    if (!written.ok()) {
      std::fprintf(stderr, "nccom-test: %s\n", std::string(written.message()).c_str());
      return kFailed;
    }
  }
  if (!outcome->failure.empty()) {
    std::fprintf(stderr, "nccom-test: %s\n", outcome->failure.c_str());
  }
  return printed && outcome->failure.empty() ? 0 : kFailed;
}

int run(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const Arguments arguments = parse_arguments(tool_text(), joined_words(words));
  if (!arguments.error().empty()) {
    return wrong_usage(arguments.error());
  }
  if (arguments.help() || arguments.version()) {
    return print(arguments.help() ? help_text(tool_text()) : version_text(tool_text())) ? 0
                                                                                        : kFailed;
  }
  const auto options = read_options(arguments);
  if (!options.ok()) {
    return wrong_usage(options.status().message());
  }
  return measure(*options);
}

}  // namespace
}  // namespace onrt::tools::nccom

int main(int argc, char** argv) {
  return onrt::tools::run_tool("nccom-test", onrt::tools::nccom::run, argc, argv);
}
