// SPDX-License-Identifier: Apache-2.0
// neuronx-cc: HLO modules to NEFFs. Exit status: 0, 1 (refused or failed), 2 (usage).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "compiler/hlo/export.h"
#include "compiler/hlo/import.h"
#include "compiler/hlo/neuronx_cc/cache_command.h"
#include "compiler/hlo/neuronx_cc/files.h"
#include "compiler/hlo/neuronx_cc/options.h"
#include "compiler/hlo/neuronx_cc/report.h"
#include "compiler/hlo/neuronx_cc/target.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr int kExitUsage = 2;
// Protocol buffers hold no more.
constexpr uint64_t kLargestModel = 2ULL << 30;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class Stopwatch {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Where the text of every stage is kept; "": nowhere.
std::string dump_folder(const Options& options) {
  if (!options.save_temps || !options.dump_dir.empty()) {
    return options.dump_dir;
  }
  const std::string& output = options.output;
  const size_t slash = output.rfind('/');
  return (slash == std::string::npos ? std::string(".") : output.substr(0, slash)) +
         "/neuronx-cc-temps";
}

// The compiler's remarks, one a line.
void report_lines(std::string_view text, Report& report) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    report.write(Verbosity::kWarning, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

struct CloseCache {
  void operator()(nrtcc_cache_t* cache) const { nrtcc_cache_close(cache); }
};
using CachePtr = std::unique_ptr<nrtcc_cache_t, CloseCache>;

// Null if nobody asked for one. One program a process: none is kept in memory.
Result<CachePtr> open_cache(const Options& options) {
  const std::string folder = cache_folder(options);
  if (folder.empty()) {
    return CachePtr();
  }
  const nrtcc_cache_options_t cache_options = {.struct_size = sizeof(nrtcc_cache_options_t),
                                               .folder = folder.c_str(),
                                               .disk_bytes = 0,
                                               .memory_bytes = -1,
                                               .memory_programs = 0};
  nrtcc_cache_t* cache = nullptr;
  if (nrtcc_cache_open(&cache_options, &cache) != NRTCC_OK) {
    return Status(NRT_FAILURE, nrtcc_last_error());
  }
  return CachePtr(cache);
}

// Whether the folder is looked in; it may be unusable.
bool uses_folder(const nrtcc_cache_t* cache) {
  nrtcc_cache_stats_t stats = {.struct_size = sizeof(nrtcc_cache_stats_t)};
  return cache != nullptr && nrtcc_cache_stats(cache, &stats) == NRTCC_OK && stats.disk_used != 0;
}

Status compile_graph(const nrtcc_graph_t* graph, const Options& options, const std::string& target,
                     Report& report) {
  const std::string dump = dump_folder(options);
  std::error_code error;
  if (!dump.empty() && !std::filesystem::create_directories(dump, error) && error) {
    return Status(NRT_FAILURE, format("cannot create '{}': {}", dump, error.message()));
  }
  const nrtcc_options_t compile_options = {
      .struct_size = sizeof(nrtcc_options_t),
      .target = target.c_str(),
      .lnc = options.lnc,
      .optimization = options.optlevel,
      .compress = options.uncompressed ? 0 : 1,
      .auto_cast = options.auto_cast,
      .auto_cast_type = options.auto_cast_type == "fp16" ? NRTCC_F16 : NRTCC_BF16,
      .dump_dir = dump.empty() ? nullptr : dump.c_str(),
  };
  ONRT_ASSIGN_OR_RETURN(const CachePtr cache, open_cache(options));
  uint8_t* neff = nullptr;
  size_t size = 0;
  nrtcc_origin_t origin = NRTCC_COMPILED;
  const Stopwatch watch;
  if (nrtcc_compile_cached(cache.get(), graph, &compile_options, &neff, &size, &origin) !=
      NRTCC_OK) {
    return Status(NRT_FAILURE, nrtcc_last_error());
  }
  report_lines(nrtcc_last_warnings(), report);
  if (uses_folder(cache.get())) {
    report.write(Verbosity::kInfo,
                 format("cache {} in '{}'", origin == NRTCC_FROM_DISK ? "hit" : "miss",
                        cache_folder(options)));
  }
  report.write(Verbosity::kInfo,
               format("{} for {} in {:.2f} ms: {} bytes",
                      origin == NRTCC_FROM_DISK ? "taken from the cache" : "compiled", target,
                      watch.milliseconds(), size));
  Status status = write_file(options.output, std::as_bytes(std::span(neff, size)));
  nrtcc_free(neff);
  return status;
}

Status compile(const Options& options, Report& report) {
  const Stopwatch watch;
  const std::string& path = options.files[0];
  if (is_same_file(path, options.output)) {
    return Status(NRT_INVALID, format("--output '{}' is the model file itself", options.output));
  }
  ONRT_ASSIGN_OR_RETURN(const std::vector<std::byte> file, read_file(path, kLargestModel));
  hlo::GraphPtr graph;
  {
    ONRT_ASSIGN_OR_RETURN(const opennrt::hlo::Module module, hlo::parse_module(file));
    ONRT_ASSIGN_OR_RETURN(graph, hlo::import_module(module));
    report.write(Verbosity::kInfo,
                 format("read '{}' in {:.2f} ms: {} bytes, {} computations", path,
                        watch.milliseconds(), file.size(), module.computations_size()));
  }
  const std::string target = options.target.empty() ? default_target() : options.target;
  return compile_graph(graph.get(), options, target, report);
}

int run_compile(const Options& options) {
  Report report(options.verbosity);
  Status status = report.open_log(options.logfile, options.logfile_given);
  for (const std::string& warning : options.warnings) {
    report.write(Verbosity::kWarning, warning);
  }
  if (status.ok()) {
    status = compile(options, report).annotate(options.files[0]);
    if (!status.ok() && !is_same_file(options.files[0], options.output)) {
      remove_output(options.output);
    }
  }
  if (!status.ok()) {
    report.write(Verbosity::kError, status.message());
    return kExitFailure;
  }
  std::puts("Compiler status PASS");
  return 0;
}

int run_export(const Options& options) {
  Report report(options.verbosity);
  const Status status = [&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const std::vector<std::byte> file,
                          read_file(options.files[0], kLargestModel));
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    ONRT_ASSIGN_OR_RETURN(const std::string bytes, hlo::export_text(text));
    return write_file(options.files[1], bytes_of(bytes));
  }();
  if (!status.ok()) {
    report.write(Verbosity::kError, options.files[0] + ": " + std::string(status.message()));
    return kExitFailure;
  }
  return 0;
}

int run_list_operators() {
  for (const std::string& name : hlo::supported_opcodes()) {
    std::puts(name.c_str());
  }
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  const auto options = parse_options(arguments);
  if (!options.ok()) {
    std::fputs(format("neuronx-cc: error: {}\n", options.status().message()).c_str(), stderr);
    return kExitUsage;
  }
  switch (options->command) {
    case Command::kHelp:
      std::fputs(help_text(options->help_topic).c_str(), stdout);
      return 0;
    case Command::kVersion:
      std::puts(format("neuronx-cc (OpenNRT) {}", nrtcc_version()).c_str());
      return 0;
    case Command::kListOperators:
      return run_list_operators();
    case Command::kExportHlo:
      return run_export(*options);
    case Command::kCache:
      return run_cache(*options);
    case Command::kCompile:
      break;
  }
  return run_compile(*options);
}

}  // namespace
}  // namespace onrt::cc

int main(int argc, char** argv) {
  // An allocation that fails is the only exception that can get here.
  try {
    return onrt::cc::run({argv + 1, argv + argc});
  } catch (const std::bad_alloc&) {
    std::fputs("neuronx-cc: error: out of memory\n", stderr);
    return 1;
  }
}
