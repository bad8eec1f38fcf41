// SPDX-License-Identifier: Apache-2.0
// neuron-ls: the Neuron devices of this host and who uses them.
#include <cstdio>

#include "runtime/observe/host_view.h"
#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/common/table.h"
#include "tools/neuron_ls/views.h"

namespace onrt::tools {
namespace {

// Callers of the vendor's tool expect 1 for everything that goes wrong.
constexpr int kFailed = 1;

const ToolText& tool_text() {
  static const ToolText kText = {
      "neuron-ls",
      "lists the Neuron devices of this host and the processes that use them",
      {"neuron-ls [options]"},
      {{"wide", 'w', "", "show more of each command line"},
       {"show-all-procs", 'a', "", "also show processes without a Neuron runtime, e.g. neuron-ls"},
       {"topology", 't', "", "draw the links between the devices"},
       {"json-output", 'j', "", "print JSON"}},
      {"neuron-ls", "OPENNRT_EMULATE=trn2.48xlarge neuron-ls --topology",
       "neuron-ls -j | jq '.[].neuron_processes'"},
      {{0, "done"}, {kFailed, "no device, or a wrong command line (told on standard output)"}}};
  return kText;
}

int run(int argc, char** argv) {
  const Arguments arguments = parse_arguments(tool_text(), argc, argv);
  std::string error = arguments.error();
  if (error.empty() && !arguments.positional().empty()) {
    error = "unexpected argument `" + printable(arguments.positional()[0]) + "'";
  }
  if (!error.empty()) {
    print(error + "\n");  // to standard output, as the vendor's tool does
    return kFailed;
  }
  if (arguments.help() || arguments.version()) {
    return print(arguments.help() ? help_text(tool_text()) : version_text(tool_text())) ? 0
                                                                                        : kFailed;
  }
  const Context context = Context::from_environment();
  const auto host = observe::observe_host(context, arguments.has("show-all-procs")
                                                       ? observe::ProcessFilter::kAll
                                                       : observe::ProcessFilter::kRuntime);
  if (!host.ok()) {
    std::fprintf(stderr, "neuron-ls: %s\n", printable(host.status().message()).c_str());
    return kFailed;
  }
  if (arguments.has("json-output")) {
    return print(json_view(*host)) ? 0 : kFailed;
  }
  std::string text = table_view(*host, arguments.has("wide") ? kWideCommandWidth : kCommandWidth);
  if (arguments.has("topology")) {
    text += topology_view(*host);
  }
  return print(text) ? 0 : kFailed;
}

}  // namespace
}  // namespace onrt::tools

int main(int argc, char** argv) {
  return onrt::tools::run_tool("neuron-ls", onrt::tools::run, argc, argv);
}
