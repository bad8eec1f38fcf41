// SPDX-License-Identifier: Apache-2.0
// Hostile bytes in the control file of an emulated machine (forged_machine.h) whose last owner died
// with cores and memory: readers and members must come back with a value or one sentence, never
// crash, hang or reach outside the file.
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <span>

#include "emulator/machine_snapshot.h"
#include "tests/fuzz/forged_machine.h"

namespace onrt::emu {
namespace {

constexpr uint64_t kMiB = 1 << 20;

void leave_a_dead_owner(const testing::TestMachine& machine, const Context& context) {
  const int status = testing::in_child([&] {
    const auto file = machine.attach(context);
    if (!file.ok() || !(*file)->claim(1, 3, 1).ok()) {
      return 1;
    }
    const auto a = (*file)->allocate(0, kMiB, 4096);
    const auto b = (*file)->allocate(1, 64 * kMiB, 4096);
    (*file)->list_model(1, 2, ProgramImage{.name = "model"});
    return a.ok() && b.ok() ? ::kill(::getpid(), SIGKILL) : 2;
  });
  if (status != 128 + SIGKILL) {
    std::abort();
  }
}

void observe(const testing::ForgedMachine& forged) {
  const auto snapshot = read_machine(forged.machine().directory());
  if (!snapshot.ok() && snapshot.status().message().empty()) {
    std::abort();
  }
  if (snapshot.ok()) {
    for (const ProcessSnapshot& process : snapshot->processes) {
      static_cast<void>(process.logical_cores());
    }
  }
}

void join(const testing::ForgedMachine& forged) {
  const auto file = forged.machine().attach(forged.context());
  if (!file.ok()) {
    if (file.status().message().empty()) {
      std::abort();
    }
    return;
  }
  MachineFile& member = **file;
  static_cast<void>(member.owners());
  const auto claimed = member.claim(-1, 2, 2);
  for (int stack = 0; stack < 2; ++stack) {
    static_cast<void>(member.usage(stack));
    const auto extent = member.allocate(stack, 3 * 4096, 4096);
    if (extent.ok() && member.commit(**extent, (*extent)->offset(), 4096).ok()) {
      (*extent)->data()[0] = std::byte{1};
      static_cast<void>(member.free(*extent));
    }
  }
  member.list_model(3, 0, ProgramImage{.name = "x"});
  member.unlist_model(3);
  if (claimed.ok()) {
    static_cast<void>(member.reset(*claimed));
    static_cast<void>(member.release(*claimed, 2));
  }
}

}  // namespace
}  // namespace onrt::emu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const onrt::emu::testing::ForgedMachine forged(onrt::emu::leave_a_dead_owner);
  forged.restore();
  forged.patch({data, size});
  onrt::emu::observe(forged);
  onrt::emu::join(forged);
  return 0;
}
