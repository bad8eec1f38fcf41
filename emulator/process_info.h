// SPDX-License-Identifier: Apache-2.0
// What /proc says of processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace onrt::emu {

struct ProcessIdentity {
  int pid = 0;
  uint64_t start_time = 0;     // clock ticks since boot
  uint64_t pid_namespace = 0;  // inode
  std::string command;         // arguments separated by spaces
};
ProcessIdentity own_identity();
uint64_t own_pid_namespace();  // inode of /proc/self/ns/pid; 0 when unknown

struct ProcessStatus {
  char state = '?';  // 'R', 'S', 'Z', ...
  uint64_t start_time = 0;
};
// Nothing when there is no such process in this pid namespace.
std::optional<ProcessStatus> process_status(int pid);

// MemAvailable of /proc/meminfo.
uint64_t available_memory();

// How often process `pid` maps the file behind `fd`; 0 when it doesn't, is gone or can't be
// examined. Unlike its pid and start time, a process' mappings don't outlive execve().
int mappings_of(int pid, int fd);

}  // namespace onrt::emu
