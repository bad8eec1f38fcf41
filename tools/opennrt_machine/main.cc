// SPDX-License-Identifier: Apache-2.0
// opennrt-machine: makes, lists, resets and removes emulated machines.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "emulator/machine_admin.h"
#include "emulator/machine_layout.h"
#include "emulator/machine_place.h"
#include "emulator/machine_profile.h"
#include "emulator/machine_snapshot.h"
#include "runtime/base/format.h"
#include "runtime/base/json.h"
#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/common/table.h"

namespace onrt::tools {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

const ToolText& tool() {
  static const ToolText kTool = {
      "opennrt-machine",
      "Makes, lists, resets and removes emulated machines.",
      {"opennrt-machine create TYPE [--name NAME] [--json]", "opennrt-machine list [--json]",
       "opennrt-machine reset NAME [--json]", "opennrt-machine rm NAME [--json]",
       "opennrt-machine types [--json]"},
      {{"name", 'n', "NAME", "name of the new machine (default: its type)"},
       {"json", 'j', "", "print JSON"}},
      {"opennrt-machine create trn2.3xlarge --name box",
       "OPENNRT_EMULATE=trn2.3xlarge OPENNRT_MACHINE=box neuron-ls", "opennrt-machine rm box"},
      {{0, "done"},
       {kFailed, "the machine does not exist, is in use or is damaged"},
       {kWrongUsage, "wrong usage"}}};
  return kTool;
}

int fail(std::string_view text) {
  std::fprintf(stderr, "opennrt-machine: %.*s\n", static_cast<int>(text.size()), text.data());
  return kFailed;
}

int wrong_usage(std::string_view text) {
  fail(text);
  std::fprintf(stderr, "Try: opennrt-machine --help\n");
  return kWrongUsage;
}

// The environment with some variables replaced.
Context context_with(const std::vector<std::pair<std::string, std::string>>& replaced) {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    variables.emplace_back(*entry);
  }
  for (const auto& [name, value] : replaced) {
    variables.push_back(name + "=" + value);  // The last one of a name wins.
  }
  Context context;
  context.settings = Settings::from_strings(variables);
  context.log = std::make_unique<Logger>(context.settings);
  return context;
}

int report(const Arguments& arguments, std::string_view action, const std::string& name,
           const std::string& directory) {
  if (!arguments.has("json")) {
    return print(format("{} {} ({})\n", action, name, directory)) ? 0 : kFailed;
  }
  JsonWriter json(4);
  json.begin_object();
  json.key("action").string(action).key("name").string(name).key("directory").string(directory);
  json.end_object();
  return print(json.take() + "\n") ? 0 : kFailed;
}

int create(const Arguments& arguments, const std::string& type) {
  const std::string name = arguments.find("name").value_or(type);
  const Context context = context_with({{"OPENNRT_EMULATE", type}, {"OPENNRT_MACHINE", name}});
  const auto directory = emu::create_machine(context);
  return directory.ok() ? report(arguments, "created", name, *directory)
                        : fail(directory.status().message());
}

// One row of `list`: what could be read, or why it couldn't.
struct Row {
  emu::MachineEntry entry;
  Result<emu::MachineSnapshot> snapshot;
};

uint64_t used_bytes(const emu::MachineSnapshot& snapshot) {
  uint64_t used = 0;
  for (const HbmUsage& usage : snapshot.hbm) {
    used += usage.used;
  }
  return used;
}

long held_cores(const emu::MachineSnapshot& snapshot) {
  return std::count_if(snapshot.cores.begin(), snapshot.cores.end(),
                       [](const emu::CoreSnapshot& core) { return core.owner >= 0; });
}

std::string list_json(const std::vector<Row>& rows) {
  JsonWriter json(4);
  json.begin_array();
  for (const Row& row : rows) {
    json.begin_object();
    json.key("name").string(row.entry.name).key("directory").string(row.entry.directory);
    json.key("uid").integer(row.entry.uid);
    json.key("error").string(row.snapshot.ok() ? "" : row.snapshot.status().message());
    if (row.snapshot.ok()) {
      const emu::MachineSnapshot& machine = *row.snapshot;
      json.key("instance_type").string(machine.info.instance_type);
      json.key("device_count").integer(machine.info.device_count);
      json.key("physical_core_count").unsigned_integer(machine.cores.size());
      json.key("held_core_count").integer(held_cores(machine));
      json.key("hbm_used_bytes").unsigned_integer(used_bytes(machine));
      json.key("backing_bytes").unsigned_integer(machine.committed_bytes);
      json.key("backing_limit_bytes").unsigned_integer(machine.committed_limit);
      json.key("processes").begin_array();
      for (const emu::ProcessSnapshot& process : machine.processes) {
        json.begin_object();
        json.key("pid").integer(process.pid).key("command").string(process.command);
        json.key("tag").string(process.tag);
        json.end_object();
      }
      json.end_array();
    }
    json.end_object();
  }
  json.end_array();
  return json.take() + "\n";
}

std::string list_text(const std::vector<Row>& rows) {
  if (rows.empty()) {
    return "no emulated machines\n";
  }
  std::string text;
  for (const Row& row : rows) {
    if (!row.snapshot.ok()) {
      text += format("{}: {}\n", row.entry.name, row.snapshot.status().message());
      continue;
    }
    const emu::MachineSnapshot& machine = *row.snapshot;
    text += format(
        "{}: {}, {} device{}, {} of {} physical cores held, {} of HBM used, {} of host "
        "memory behind it ({})\n",
        row.entry.name, machine.info.instance_type, machine.info.device_count,
        machine.info.device_count == 1 ? "" : "s", held_cores(machine), machine.cores.size(),
        format_bytes(used_bytes(machine)), format_bytes(machine.committed_bytes),
        row.entry.directory);
    for (const emu::ProcessSnapshot& process : machine.processes) {
      text += format("  pid {}: {}\n", process.pid, shortened(printable(process.command), 80));
    }
  }
  return text;
}

int list(const Arguments& arguments) {
  std::vector<Row> rows;
  for (emu::MachineEntry& entry : emu::list_machines(context_with({}))) {
    auto snapshot = emu::read_machine(entry.directory);
    rows.push_back({std::move(entry), std::move(snapshot)});
  }
  return print(arguments.has("json") ? list_json(rows) : list_text(rows)) ? 0 : kFailed;
}

int types(const Arguments& arguments) {
  JsonWriter json(4);
  std::string text;
  json.begin_array();
  for (const std::string& type : emu::embedded_instance_types()) {
    json.string(type);
    text += type + "\n";
  }
  json.end_array();
  return print(arguments.has("json") ? json.take() + "\n" : text) ? 0 : kFailed;
}

// Folders of machines called `name`, of any layout version.
std::vector<std::string> folders_of(const Context& context, const std::string& name) {
  std::vector<std::string> folders;
  for (const std::string& root : emu::reader_roots(context)) {
    for (const std::string& folder : emu::paths_in(root, name + ".v")) {
      const std::string_view base = std::string_view(folder).substr(root.size() + 1);
      if (emu::machine_version_of(base) > 0 && base.rfind(".v") == name.size()) {
        folders.push_back(folder);
      }
    }
  }
  return folders;
}

int change(const Arguments& arguments, const std::string& action, const std::string& name) {
  const Context context = context_with({});
  const std::vector<std::string> folders = folders_of(context, name);
  if (folders.empty()) {
    return fail(format("no emulated machine is called '{}'", name));
  }
  for (const std::string& folder : folders) {
    const Status status =
        action == "rm" ? emu::remove_machine(context, folder) : emu::reset_machine(context, folder);
    if (!status.ok()) {
      return fail(status.message());
    }
    if (const int code = report(arguments, action == "rm" ? "removed" : "reset", name, folder)) {
      return code;
    }
  }
  return 0;
}

int run(int argc, char** argv) {
  const Arguments arguments = parse_arguments(tool(), argc, argv);
  if (!arguments.error().empty()) {
    return wrong_usage(arguments.error());
  }
  if (arguments.help() || arguments.version()) {
    return print(arguments.help() ? help_text(tool()) : version_text(tool())) ? 0 : kFailed;
  }
  const std::vector<std::string>& words = arguments.positional();
  const std::string command = words.empty() ? "" : words[0];
  static const std::set<std::string> kWithOperand = {"create", "reset", "rm"};
  static const std::set<std::string> kAlone = {"list", "types"};
  if (kWithOperand.count(command) + kAlone.count(command) == 0) {
    return wrong_usage(words.empty() ? "expected a command: create, list, reset, rm or types"
                                     : format("unknown command '{}'", command));
  }
  if (words.size() != 1 + kWithOperand.count(command)) {
    return wrong_usage(
        format("{} takes {} argument", command, kWithOperand.count(command) != 0 ? "one" : "no"));
  }
  if (arguments.has("name") && command != "create") {
    return wrong_usage("--name is only for create");
  }
  if (command == "create") {
    return create(arguments, words[1]);
  }
  if (kAlone.count(command) != 0) {
    return command == "list" ? list(arguments) : types(arguments);
  }
  return change(arguments, command, words[1]);
}

}  // namespace
}  // namespace onrt::tools

int main(int argc, char** argv) {
  return onrt::tools::run_tool("opennrt-machine", onrt::tools::run, argc, argv);
}
