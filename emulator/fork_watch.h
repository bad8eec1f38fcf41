// SPDX-License-Identifier: Apache-2.0
// Knows whether this process is a forked child of one that used an emulated machine. Locks, cores
// and memory stay with the parent; the child may use nothing of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/mutex.h"

namespace onrt::emu {

class MachineFile;

// Machines that this process has joined: at most one object per machine, because closing any
// descriptor of a machine's lock file drops all its locks. A forked child gets an empty one.
struct ProcessMachines {
  Mutex mutex;
  std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<MachineFile>> by_inode
      ONRT_GUARDED_BY(mutex);
  Mutex folders_mutex;
  std::map<std::string, std::string> folders ONRT_GUARDED_BY(folders_mutex);  // relative: absolute
  std::atomic<int> joined{0};
  std::atomic<bool> announced{false};  // the line that says that devices are emulated
  bool parent_joined = false;          // the parent was a member of a machine when it forked
  ProcessMachines* parent = nullptr;
  uint64_t generation = 0;  // number of forks between the first process and this one
};

// Of the calling process.
ProcessMachines& process_machines();

// This process' membership of the machine in `folder` (a descriptor); null when it has none.
std::shared_ptr<MachineFile> own_membership(int folder);

// True when the object that remembered `generation` belongs to a parent.
bool is_forked_child(uint64_t generation);

}  // namespace onrt::emu
