// SPDX-License-Identifier: Apache-2.0
// neuron-bench: runs a NEFF without a program around it.
#include <cstdio>

#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/neuron_bench/exec.h"

namespace onrt::tools {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr long long kMostRuns = 1'000'000'000;
constexpr long long kMostCores = 4096;

const ToolText& tool_text() {
  static const ToolText kText = {
      "neuron-bench",
      "runs a NEFF, with inputs and outputs in NumPy files, and tells how long it took",
      {"neuron-bench exec [options] MODEL.neff [FILE.npy | NAME=FILE.npy | FILE.npz]..."},
      {{"output", 'o', "FILE.npz", "write the outputs, by name"},
       {"iterations", 'n', "N", "executions to time (default 1)"},
       {"warmup", 'w', "N", "executions before that (default 0)"},
       {"core", 'c', "N", "visible core to run on (default 0)"},
       {"require-inputs", '\0', "", "fail when an input has no file (default: zeros)"},
       {"json", 'j', "", "print JSON"}},
      {"neuron-bench exec add.neff a.npy b.npy -o sum.npz",
       "neuron-bench exec step.neff weights.npz x=batch.npy -n 100 -w 10",
       "OPENNRT_EMULATE=trn2.3xlarge neuron-bench exec --json model.neff"},
      {{0, "done"},
       {kFailed, "a file, the runtime or an execution failed; the reason is on standard error"},
       {kUsage, "wrong command line"}}};
  return kText;
}

int wrong_usage(const std::string& why) {
  std::fprintf(stderr, "neuron-bench: %s; see neuron-bench --help\n", why.c_str());
  return kUsage;
}

// Value of a whole-number flag; false after a message.
bool take_number(const Arguments& arguments, std::string_view flag, long long least, long long most,
                 int& value) {
  const auto text = arguments.find(flag);
  if (!text) {
    return true;
  }
  const auto number = parse_whole(*text, least, most);
  if (!number) {
    wrong_usage("--" + std::string(flag) + "='" + *text + "': expected " + std::to_string(least) +
                " to " + std::to_string(most));
    return false;
  }
  value = static_cast<int>(*number);
  return true;
}

int exec(const Arguments& arguments) {
  ExecRequest request;
  const auto& words = arguments.positional();
  request.model = words[1];
  request.inputs.assign(words.begin() + 2, words.end());
  request.output = arguments.find("output");
  request.require_inputs = arguments.has("require-inputs");
  if (!take_number(arguments, "iterations", 1, kMostRuns, request.iterations) ||
      !take_number(arguments, "warmup", 0, kMostRuns, request.warmup) ||
      !take_number(arguments, "core", 0, kMostCores, request.core)) {
    return kUsage;
  }
  const auto report = run_exec(request);
  if (!report.ok()) {
    std::fprintf(stderr, "neuron-bench: %s\n", std::string(report.status().message()).c_str());
    return kFailed;
  }
  if (!print(arguments.has("json") ? report_json(*report) : report_text(*report))) {
    return kFailed;
  }
  if (!report->numerics.ok()) {
    std::fprintf(stderr, "neuron-bench: %s\n", std::string(report->numerics.message()).c_str());
    return kFailed;
  }
  return 0;
}

int run(int argc, char** argv) {
  const Arguments arguments = parse_arguments(tool_text(), argc, argv);
  if (!arguments.error().empty()) {
    return wrong_usage(arguments.error());
  }
  if (arguments.help() || arguments.version()) {
    return print(arguments.help() ? help_text(tool_text()) : version_text(tool_text())) ? 0
                                                                                        : kFailed;
  }
  const auto& words = arguments.positional();
  if (words.size() < 2 || words[0] != "exec") {
    return wrong_usage("expected 'exec MODEL.neff'");
  }
  return exec(arguments);
}

}  // namespace
}  // namespace onrt::tools

int main(int argc, char** argv) {
  return onrt::tools::run_tool("neuron-bench", onrt::tools::run, argc, argv);
}
