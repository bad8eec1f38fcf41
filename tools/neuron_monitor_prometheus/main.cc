// SPDX-License-Identifier: Apache-2.0
// neuron-monitor-prometheus: reports of neuron-monitor on standard input, metrics by HTTP.
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/common/table.h"
#include "tools/neuron_monitor_prometheus/server.h"

namespace onrt::tools {
namespace {

constexpr int kFailed = 1;

const ToolText& tool_text() {
  static const ToolText kText = {
      "neuron-monitor-prometheus",
      "serves the reports of neuron-monitor on standard input as Prometheus metrics",
      {"neuron-monitor | neuron-monitor-prometheus.py [options]"},
      {{"port", 'p', "PORT", "TCP port (default 8000; 0: any that is free)"},
       {"address", 'a', "IP", "address to listen on (default 0.0.0.0: all)"},
       {"enable-k8s-info", '\0', "", "not supported here: reports name no pods"}},
      {"neuron-monitor | neuron-monitor-prometheus.py --port 8008"},
      {{0, "neuron-monitor ended, or a signal came"}, {kFailed, "could not serve"}}};
  return kText;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "neuron-monitor-prometheus: %s\n", printable(message).c_str());
  return kFailed;
}

int run(int argc, char** argv) {
  const Arguments arguments = parse_arguments(tool_text(), argc, argv);
  if (!arguments.error().empty()) {
    return fail(arguments.error());
  }
  if (arguments.help() || arguments.version()) {
    return print(arguments.help() ? help_text(tool_text()) : version_text(tool_text())) ? 0
                                                                                        : kFailed;
  }
  if (!arguments.positional().empty()) {
    return fail("unexpected argument '" + arguments.positional()[0] + "'");
  }
  if (arguments.has("enable-k8s-info")) {
    return fail("--enable-k8s-info: this release does not map cores to Kubernetes pods");
  }
  ServerOptions options;
  const std::string port = arguments.find("port").value_or("8000");
  const auto number = parse_whole(port, 0, 65535);
  if (!number) {
    return fail("--port '" + port + "': expected 0 to 65535");
  }
  options.port = static_cast<uint16_t>(*number);
  options.address = arguments.find("address").value_or(options.address);
  if (::isatty(STDIN_FILENO) != 0) {
    return fail(
        "expected the reports of neuron-monitor on standard input: "
        "neuron-monitor | neuron-monitor-prometheus.py");
  }
  ::signal(SIGPIPE, SIG_IGN);
  const Status served = serve(options);
  return served.ok() ? 0 : fail(std::string(served.message()));
}

}  // namespace
}  // namespace onrt::tools

int main(int argc, char** argv) {
  return onrt::tools::run_tool("neuron-monitor-prometheus", onrt::tools::run, argc, argv);
}
