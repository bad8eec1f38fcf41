// SPDX-License-Identifier: Apache-2.0
// Hostile bytes in the control file of an emulated machine (forged_machine.h) that a living process
// uses: what neuron-ls, neuron-top, neuron-monitor and the sysfs tree make of two looks at it. JSON
// must parse again, and sums be those of their parts.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>

#include "emulator/machine_snapshot.h"
#include "runtime/base/json.h"
#include "runtime/observe/host_view.h"
#include "runtime/observe/sysfs_tree.h"
#include "tests/fuzz/forged_machine.h"
#include "tools/neuron_ls/views.h"
#include "tools/neuron_monitor/report.h"
#include "tools/neuron_top/model.h"
#include "tools/neuron_top/screen.h"

namespace onrt::tools {
namespace {

using emu::MachineSnapshot;
using emu::testing::ForgedMachine;

constexpr uint64_t kMiB = 1 << 20;

void require(bool condition, int line = __builtin_LINE()) {
  if (!condition) {
    std::fprintf(stderr, "tools_fuzz.cc:%d: not so\n", line);
    std::abort();
  }
}

// A process with cores, memory and a model that lives as long as this one.
void leave_a_living_owner(const emu::testing::TestMachine& machine, const Context& context) {
  int ready[2];
  require(::pipe(ready) == 0);
  emu::testing::start_child([&] {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto file = machine.attach(context);
    if (!file.ok() || !(*file)->claim(0, 4, 2).ok()) {
      return 1;
    }
    const auto extent = (*file)->allocate(0, kMiB, 4096);
    (*file)->list_model(1, 1, ProgramImage{.name = "model"});
    if (!extent.ok() || ::write(ready[1], "", 1) != 1) {
      return 2;
    }
    while (true) {
      ::pause();
    }
  });
  ::close(ready[1]);
  char byte = 0;
  require(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
}

void show_devices(const MachineSnapshot& machine) {
  const observe::HostView view = observe::view_of(machine, machine.info.logical_core_size, {});
  require(parse_json(json_view(view)).ok());
  static_cast<void>(table_view(view, kCommandWidth));
  static_cast<void>(topology_view(view));
}

void show_tree(const MachineSnapshot& machine) {
  for (const observe::SysfsFile& file : observe::sysfs_files(machine.info)) {
    static_cast<void>(observe::sysfs_text(file, machine));
  }
}

Look look_of(const MachineSnapshot& machine) {
  Look look;
  look.machine = machine;
  look.loads.resize(machine.processes.size());
  return look;
}

void show_top(const MachineSnapshot& before, const MachineSnapshot& now) {
  const Look first = look_of(before);
  const Look second = look_of(now);
  const TopModel model = make_model(&first, second);
  for (const App& app : model.apps) {
    observe::DeviceMemory sum;
    for (const AppCore& core : app.cores) {
      require(core.percent >= 0 && core.percent <= 100);
      sum += core.memory;
    }
    require(sum.total() == app.device.total());
  }
  require(parse_json(top_json(model)).ok());
  TopState state;
  state.follow(model);
  state.press(Key::kExpandAll, model);
  for (const auto& [width, height] : {std::pair(80, 24), std::pair(200, 60), std::pair(20, 5)}) {
    for (const TreeRow& row : tree_rows(model, state)) {
      require(row.depth >= 0);
    }
    require(!plain_text(draw(model, state, width, height)).empty());
    state.press(Key::kFlops, model);
    state.press(Key::kDown, model);
  }
}

void show_monitor(const MachineSnapshot& before, const MachineSnapshot& now) {
  const MachineSnapshot* current = &before;
  MonitorSources sources;
  sources.machine = [&]() -> Result<MachineSnapshot> { return *current; };
  sources.host_times = [] { return Result<observe::HostTimes>(observe::HostTimes{}); };
  sources.memory = [] { return Result<observe::MemoryInfo>(observe::MemoryInfo{}); };
  sources.load = [](int) { return std::optional<observe::ProcessLoad>(); };
  const MonitorClock::time_point start{};
  Monitor monitor(default_config(), sources, start);
  require(parse_json(monitor.report(start)).ok());
  current = &now;
  require(parse_json(monitor.report(start + std::chrono::hours(1))).ok());
}

void show(const ForgedMachine& forged, std::span<const uint8_t> input) {
  forged.restore();
  const size_t half = input.size() / 2;
  forged.patch(input.first(half));
  const auto before = emu::read_machine(forged.machine().directory());
  forged.patch(input.subspan(half));
  const auto now = emu::read_machine(forged.machine().directory());
  for (const auto* look : {&before, &now}) {
    require(look->ok() || !look->status().message().empty());
    if (look->ok()) {
      show_devices(**look);
      show_tree(**look);
    }
  }
  // The tools compare what is of one machine.
  if (before.ok() && now.ok() && before->cores.size() == now->cores.size()) {
    show_top(*before, *now);
    show_monitor(*before, *now);
  }
}

}  // namespace
}  // namespace onrt::tools

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const onrt::emu::testing::ForgedMachine forged(onrt::tools::leave_a_living_owner);
  onrt::tools::show(forged, {data, size});
  return 0;
}
