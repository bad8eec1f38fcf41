// SPDX-License-Identifier: Apache-2.0
// opennrt-sysfs: the files that the vendor's kernel driver shows below /sys, written to a folder.
#include <cstdio>

#include "runtime/observe/host_view.h"
#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/common/table.h"
#include "tools/opennrt_sysfs/write_tree.h"

namespace onrt::tools {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

const ToolText& tool_text() {
  static const ToolText kText = {
      "opennrt-sysfs",
      "writes a snapshot of the driver's sysfs tree of the emulated machine to a folder",
      {"opennrt-sysfs DIR"},
      {},
      {"opennrt-sysfs /tmp/sys && cat /tmp/sys/class/neuron_device/neuron0/core_count"},
      {{0, "done"},
       {kFailed, "no device, or the folder can't be written"},
       {kWrongUsage, "wrong usage"}}};
  return kText;
}

int fail(std::string_view text, int code) {
  std::fprintf(stderr, "opennrt-sysfs: %s\n", printable(text).c_str());
  return code;
}

int run(int argc, char** argv) {
  const Arguments arguments = parse_arguments(tool_text(), argc, argv);
  if (!arguments.error().empty()) {
    return fail(arguments.error(), kWrongUsage);
  }
  if (arguments.help() || arguments.version()) {
    return print(arguments.help() ? help_text(tool_text()) : version_text(tool_text())) ? 0
                                                                                        : kFailed;
  }
  if (arguments.positional().size() != 1) {
    return fail("expected one folder", kWrongUsage);
  }
  const std::string& folder = arguments.positional()[0];
  const Context context = Context::from_environment();
  const auto machine = observe::observe_machine(context);
  if (!machine.ok()) {
    return fail(machine.status().message(), kFailed);
  }
  Status done = check_tree_folder(folder);
  if (done.ok()) {
    done = TreeWriter(folder, machine->info).write(*machine);
  }
  return done.ok() ? 0 : fail(done.message(), kFailed);
}

}  // namespace
}  // namespace onrt::tools

int main(int argc, char** argv) {
  return onrt::tools::run_tool("opennrt-sysfs", onrt::tools::run, argc, argv);
}
