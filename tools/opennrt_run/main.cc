// SPDX-License-Identifier: Apache-2.0
// opennrt-run: runs any program so that it finds the driver's files below /sys, and the tools below
// /opt/aws/neuron, as on a machine with Trainium.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "runtime/base/file.h"
#include "runtime/base/format.h"
#include "runtime/observe/host_view.h"
#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/common/table.h"
#include "tools/opennrt_run/live_tree.h"
#include "tools/opennrt_run/namespace.h"
#include "tools/opennrt_sysfs/write_tree.h"

namespace onrt::tools {
namespace {

namespace fs = std::filesystem;

// As for env(1) and timeout(1).
constexpr int kFailed = 125;
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

const std::string kDevices = std::string("/sys/") + observe::kSysfsDevices;

const ToolText& tool_text() {
  static const ToolText kText = {
      "opennrt-run",
      "runs a program with the driver's sysfs tree of an emulated machine at its real place",
      {"opennrt-run --instance TYPE [--machine NAME] -- COMMAND [ARGUMENT...]"},
      {{"instance", 'i', "TYPE", "instance type, as OPENNRT_EMULATE"},
       {"machine", 'm', "NAME", "name of the machine, as OPENNRT_MACHINE"},
       {"snapshot", '\0', "", "no live tree: read-only files, refreshed each second"}},
      {"opennrt-run --instance trn2.48xlarge -- cat "
       "/sys/devices/virtual/neuron_device/neuron0/core_count"},
      {{0, "what the command ended with"},
       {kFailed, "the namespace could not be made, or wrong usage"},
       {kCannotExecute, "the command can't be executed"},
       {kNotFound, "there is no such command"}}};
  return kText;
}

int fail(std::string_view text, int code = kFailed) {
  std::fprintf(stderr, "opennrt-run: %s\n", printable(text).c_str());
  return code;
}

bool is_device_path(const std::string& path) {
  return path.starts_with(std::string(observe::kSysfsDevices) + "/");
}

// The folder with this program's sibling tools.
fs::path own_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

struct Places {
  std::string extra;  // a memory file system with what is added
  emu::MachineSnapshot machine;
};

// Everything but the devices' own files: they don't change.
Status fill(const Places& places) {
  TreeWriter still(places.extra + "/sys", places.machine.info,
                   [](const std::string& path) { return !is_device_path(path); });
  ONRT_RETURN_IF_ERROR(still.write(places.machine));
  ONRT_RETURN_IF_ERROR(make_path(places.extra + kDevices));
  ONRT_RETURN_IF_ERROR(make_path(places.extra + "/opt/aws/neuron"));
  std::error_code error;
  fs::create_directory_symlink(own_folder(), places.extra + "/opt/aws/neuron/bin", error);
  fs::create_directory_symlink(own_folder().parent_path() / "lib",
                               places.extra + "/opt/aws/neuron/lib", error);
  return ok_status();
}

Status place(const Places& places) {
  for (const char* folder : {"/sys/devices/virtual", "/sys/class", "/sys/module", "/opt"}) {
    std::error_code error;
    if (!fs::exists(places.extra + folder, error)) {
      continue;
    }
    const Status added = fs::exists(folder, error) ? add_entries(places.extra + folder, folder)
                                                   : Status(NRT_FAILURE, "it does not exist");
    if (!added.ok() && std::string_view(folder) != "/opt") {
      return Status(NRT_FAILURE, format("{} can't be changed: {}", folder, added.message()));
    }
  }
  return ok_status();
}

// The child process that serves the tree; it ends with this one. Its first byte on the pipe says
// that the tree can be used, or the pipe is closed.
template <class Serve>
bool start_server(Serve&& serve) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return false;
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::close(ends[0]);
    if (::getppid() == parent) {
      // Not the command's streams: whoever waits for their end must not wait for this process.
      const UniqueFd null = open_file("/dev/null", O_RDWR);
      ::dup2(null.get(), STDIN_FILENO);
      ::dup2(null.get(), STDOUT_FILENO);
      serve([&] {
        ::dup2(null.get(), STDERR_FILENO);
        static_cast<void>(!::write(ends[1], "+", 1));
        ::close(ends[1]);
      });
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  char byte = 0;
  ssize_t got = -1;
  do {
    got = child < 0 ? 0 : ::read(ends[0], &byte, 1);
  } while (got < 0 && errno == EINTR);
  ::close(ends[0]);
  if (got != 1 && child > 0) {
    ::waitpid(child, nullptr, 0);
  }
  return got == 1;
}

bool serve_live(const Context& context) {
  return start_server([&](auto&& ready) {
    const Status served = serve_live_tree(context, kDevices, ready);
    if (!served.ok()) {
      fail(served.message());
    }
  });
}

// Files in memory, written each second by the child; the command sees them read-only.
bool serve_snapshots(const Context& context, const Places& places) {
  const std::string source = places.extra + "/tree";
  TreeWriter writer("tree/sys", places.machine.info, is_device_path);
  if (::chdir(places.extra.c_str()) != 0 || !make_path(source).ok() ||
      !writer.write(places.machine).ok() || !bind_read_only(source + kDevices, kDevices).ok()) {
    return false;
  }
  return start_server([&](auto&& ready) {
    ready();
    while (true) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      if (const auto look = observe::observe_machine(context); look.ok()) {
        static_cast<void>(writer.write(*look));  // memory that is full now may not be later
      }
    }
  });
}

Status show_tree(const Context& context, const Places& places, bool snapshots_wanted) {
  std::string problem = snapshots_wanted ? "" : live_tree_problem();
  const bool live = !snapshots_wanted && problem.empty() && serve_live(context);
  if (live) {
    return ok_status();
  }
  if (!snapshots_wanted) {
    fail(format("{}: the tree is read-only and refreshed each second",
                problem.empty() ? "no live tree" : problem));
  }
  return serve_snapshots(context, places)
             ? ok_status()
             : Status(NRT_FAILURE, format("{} can't be shown", kDevices));
}

// Namespaces, mounts and the server; afterwards the command can be executed.
Status prepare(const Context& context, bool snapshots_wanted) {
  ONRT_ASSIGN_OR_RETURN(emu::MachineSnapshot machine, observe::observe_machine(context));
  const char* temporary = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): one thread
  std::string name = std::string(temporary == nullptr ? "/tmp" : temporary) + "/opennrt-run-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    return Status(NRT_FAILURE, format("{}: {}", name, std::strerror(errno)));
  }
  std::error_code error;
  const std::string before = fs::current_path(error).string();
  Places places{name, std::move(machine)};
  Status done = enter_namespaces();
  if (done.ok()) {
    done = mount_memory(name);
  }
  if (done.ok()) {
    done = fill(places);
  }
  if (done.ok()) {
    done = place(places);
  }
  if (done.ok()) {
    done = show_tree(context, places, snapshots_wanted);
  }
  static_cast<void>(!::chdir(before.c_str()));
  unmount(name);
  ::rmdir(name.c_str());
  return done;
}

int execute(const std::vector<std::string>& command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  return fail(format("{}: {}", command[0], std::strerror(errno)),
              errno == ENOENT ? kNotFound : kCannotExecute);
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
  if (arguments.positional().empty()) {
    return fail("expected a command after --");
  }
  if (const auto type = arguments.find("instance")) {
    ::setenv("OPENNRT_EMULATE", type->c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  if (const auto machine = arguments.find("machine")) {
    ::setenv("OPENNRT_MACHINE", machine->c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  {
    const Context context = Context::from_environment();
    const Status prepared = prepare(context, arguments.has("snapshot"));
    if (!prepared.ok()) {
      return fail(prepared.message());
    }
  }
  return execute(arguments.positional());
}

}  // namespace
}  // namespace onrt::tools

int main(int argc, char** argv) {
  return onrt::tools::run_tool("opennrt-run", onrt::tools::run, argc, argv);
}
