// SPDX-License-Identifier: Apache-2.0
#include "emulator/fork_watch.h"

#include <pthread.h>

#include <atomic>

namespace onrt::emu {
namespace {

std::atomic<ProcessMachines*> current{nullptr};

// Runs in the child. The parent's object may be locked by a thread that does not exist here: it is
// left alone, reachable through `parent`.
void start_anew_in_child() {
  ProcessMachines* parent = current.load();
  auto* machines = new ProcessMachines();
  machines->parent = parent;
  machines->parent_joined = parent->parent_joined || parent->joined.load() > 0;
  machines->generation = parent->generation + 1;
  current.store(machines);
}

}  // namespace

ProcessMachines& process_machines() {
  static const bool kWatching = [] {
    current.store(new ProcessMachines());
    ::pthread_atfork(nullptr, nullptr, start_anew_in_child);
    return true;
  }();
  static_cast<void>(kWatching);
  return *current.load();
}

bool is_forked_child(uint64_t generation) { return process_machines().generation != generation; }

}  // namespace onrt::emu
