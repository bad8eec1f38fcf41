// SPDX-License-Identifier: Apache-2.0
// neuron-top: what the Neuron devices and their processes do now, on a terminal.
#include <unistd.h>

#include <chrono>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/common/table.h"
#include "tools/neuron_top/terminal.h"

namespace onrt::tools {
namespace {

constexpr int kFailed = 1;

const ToolText& tool_text() {
  static const ToolText kText = {
      "neuron-top",
      "shows utilisation, memory, models and processes of the Neuron devices",
      {"neuron-top [options]"},
      {{"once", '1', "", "print the screen once as text and end"},
       {"json", 'j', "", "print the figures once as JSON and end"},
       {"interval", 'i', "SECONDS", "time between two looks, 0.1 to 3600 (default 1)"},
       {"width", 'w', "COLUMNS", "of --once, 40 to 1000 (default: COLUMNS, else 132)"}},
      {"neuron-top", "neuron-top --once --width 100", "neuron-top --json | jq '.apps[].tag'"},
      {{0, "done"}, {kFailed, "no device, no terminal, or a wrong command line"}}};
  return kText;
}

int fail(std::string_view message) {
  std::fprintf(stderr, "neuron-top: %s\n", printable(message).c_str());
  return kFailed;
}

// Two looks, `interval` apart.
Result<TopModel> look_twice(const Context& context, std::chrono::milliseconds interval) {
  ONRT_ASSIGN_OR_RETURN(const auto before, collect(context));
  std::this_thread::sleep_for(interval);
  ONRT_ASSIGN_OR_RETURN(const auto now, collect(context));
  return make_model(before.get(), *now);
}

int text_width_wanted(const Arguments& arguments) {
  constexpr int kDefault = 132;
  constexpr int kWidest = 1000;
  const char* columns = std::getenv("COLUMNS");  // NOLINT(concurrency-mt-unsafe): one thread
  const std::string text = arguments.find("width").value_or(columns == nullptr ? "" : columns);
  const auto width = parse_whole(text, kLeastWidth, kWidest);
  return width ? static_cast<int>(*width) : arguments.has("width") ? -1 : kDefault;
}

int run_with(const Arguments& arguments, std::chrono::milliseconds interval) {
  const Context context = Context::from_environment();
  if (arguments.has("once") || arguments.has("json")) {
    const int width = text_width_wanted(arguments);
    if (width < 0) {
      return fail("--width: expected 40 to 1000");
    }
    const auto model = look_twice(context, interval);
    if (!model.ok()) {
      return fail(model.status().message());
    }
    TopState state;
    return print(arguments.has("json") ? top_json(*model)
                                       : plain_text(draw(*model, state, width, 0)))
               ? 0
               : kFailed;
  }
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) {
    return fail("standard input and output are no terminal; use --once or --json");
  }
  const auto first = collect(context);
  if (!first.ok()) {
    return fail(first.status().message());
  }
  const Status shown = run_terminal(context, *first, interval);
  return shown.ok() ? 0 : fail(shown.message());
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
  const std::string text = arguments.find("interval").value_or("1");
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(seconds >= 0.1) || !(seconds <= 3600)) {
    return fail("--interval '" + text + "': expected 0.1 to 3600 seconds");
  }
  return run_with(arguments, std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
}

}  // namespace
}  // namespace onrt::tools

int main(int argc, char** argv) {
  // Tags may hold more than ASCII.
  std::setlocale(LC_CTYPE, "");  // NOLINT(concurrency-mt-unsafe): one thread
  return onrt::tools::run_tool("neuron-top", onrt::tools::run, argc, argv);
}
