// SPDX-License-Identifier: Apache-2.0
// neuron-monitor: metrics of the Neuron devices, their processes and the host as JSON lines.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/common/table.h"
#include "tools/neuron_monitor/report.h"

namespace onrt::tools {
namespace {

constexpr int kFailed = 1;
constexpr uint64_t kLargestConfig = 1 << 20;

const ToolText& tool_text() {
  static const ToolText kText = {
      "neuron-monitor",
      "prints metrics of the Neuron devices, their processes and the host, one JSON object a line",
      {"neuron-monitor [options]"},
      {{"config-file", 'c', "FILE", "which metric groups, of which processes, how often"},
       {"verbose", '\0', "0..4", "more on standard error (default 0)"}},
      {"neuron-monitor | jq -c '.neuron_runtime_data[].report.neuroncore_counters'",
       "neuron-monitor -c monitor.conf | neuron-monitor-prometheus.py --port 8000"},
      {{0, "ended by a signal, or the reader of standard output went away"},
       {kFailed, "a wrong command line or configuration file"}}};
  return kText;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "neuron-monitor: %s\n", printable(message).c_str());
  return kFailed;
}

volatile std::sig_atomic_t g_stop = 0;
void stop(int) { g_stop = 1; }

void catch_signals() {
  struct sigaction action{};
  action.sa_handler = stop;  // without SA_RESTART: poll() returns
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

// Waits until `due`. False when the reader of standard output is gone, or a signal came.
bool wait_until(MonitorClock::time_point due) {
  while (g_stop == 0) {
    const auto left = due - MonitorClock::now();
    if (left <= MonitorClock::duration::zero()) {
      return true;
    }
    pollfd output{STDOUT_FILENO, 0, 0};  // only POLLERR: a pipe without a reader
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
    const int ready = ::ppoll(&output, 1, &time, nullptr);
    if (ready > 0 && (output.revents & (POLLERR | POLLNVAL)) != 0) {
      return false;
    }
  }
  return false;
}

int stream(const MonitorConfig& config, const Context& context, long long verbose) {
  Monitor monitor(config, host_sources(context), MonitorClock::now());
  if (monitor.next_due() == MonitorClock::time_point::max()) {
    return fail("the configuration file names no metric group");
  }
  catch_signals();
  while (wait_until(monitor.next_due())) {
    const auto begin = MonitorClock::now();
    const std::string line = monitor.report(begin) + "\n";
    if (!write_fully(STDOUT_FILENO, line)) {
      return errno == EPIPE ? 0 : fail(std::string("standard output: ") + std::strerror(errno));
    }
    if (verbose > 0) {
      const auto took = std::chrono::duration<double>(MonitorClock::now() - begin).count();
      std::fprintf(stderr, "neuron-monitor: a report of %zu bytes in %.6f s\n", line.size(), took);
    }
  }
  return 0;
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
  const std::string level = arguments.find("verbose").value_or("0");
  const auto verbose = parse_whole(level, 0, 4);
  if (!verbose) {
    return fail("--verbose '" + level + "': expected 0 to 4");
  }
  MonitorConfig config = default_config();
  if (const auto path = arguments.find("config-file")) {
    const auto bytes = read_file(*path, kLargestConfig);
    if (!bytes.ok()) {
      return fail(std::string(bytes.status().message()));
    }
    auto parsed = parse_config({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
    if (!parsed.ok()) {
      return fail(*path + ": " + std::string(parsed.status().message()));
    }
    config = std::move(parsed).value();
  }
  const Context context = Context::from_environment();
  return stream(config, context, *verbose);
}

}  // namespace
}  // namespace onrt::tools

int main(int argc, char** argv) {
  return onrt::tools::run_tool("neuron-monitor", onrt::tools::run, argc, argv);
}
