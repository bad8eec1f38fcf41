// SPDX-License-Identifier: Apache-2.0
// opennrt-doctor: would nrt_init() work here, with which device and which library, and why?
#include <cstdio>

#include "runtime/observe/host_view.h"
#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/common/table.h"
#include "tools/opennrt_doctor/findings.h"

namespace onrt::tools {
namespace {

constexpr int kNotReady = 1;
constexpr int kUsage = 2;

const ToolText& tool_text() {
  static const ToolText kText = {
      "opennrt-doctor",
      "tells which device and which libnrt a program would get here, and why",
      {"opennrt-doctor [--json]"},
      {{"json", 'j', "", "print JSON"}},
      {"opennrt-doctor", "OPENNRT_EMULATE=trn2.3xlarge opennrt-doctor",
       "opennrt-doctor --json | jq '.findings[] | select(.level != \"ok\")'"},
      {{0, "ready"}, {kNotReady, "a problem was found"}, {kUsage, "wrong command line"}}};
  return kText;
}

Findings check_all(const Context& context) {
  Findings all = check_versions();
  const auto add = [&](Findings more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  };
  const auto host = observe::observe_host(context, observe::ProcessFilter::kRuntime);
  add(check_settings(context));
  add(check_backend(context));
  add(check_machine(context));
  add(check_library());
  add(check_python());
  add(check_limits(host.ok() ? host->directory : ""));
  return all;
}

int run(int argc, char** argv) {
  const Arguments arguments = parse_arguments(tool_text(), argc, argv);
  std::string error = arguments.error();
  if (error.empty() && !arguments.positional().empty()) {
    error = "unexpected argument '" + printable(arguments.positional()[0]) + "'";
  }
  if (!error.empty()) {
    std::fprintf(stderr, "opennrt-doctor: %s; see opennrt-doctor --help\n", error.c_str());
    return kUsage;
  }
  if (arguments.help() || arguments.version()) {
    return print(arguments.help() ? help_text(tool_text()) : version_text(tool_text())) ? 0
                                                                                        : kNotReady;
  }
  const Context context = Context::from_environment();
  const Findings findings = check_all(context);
  if (!print(arguments.has("json") ? findings_json(findings) : findings_text(findings))) {
    return kNotReady;
  }
  return has_problem(findings) ? kNotReady : 0;
}

}  // namespace
}  // namespace onrt::tools

int main(int argc, char** argv) {
  return onrt::tools::run_tool("opennrt-doctor", onrt::tools::run, argc, argv);
}
