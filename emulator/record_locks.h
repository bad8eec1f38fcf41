// SPDX-License-Identifier: Apache-2.0
// Classic fcntl record locks on the machine's `locks` file: they vanish with the process (SIGKILL
// included, even while it is a zombie), are not inherited by forked children, and tell their
// holder's pid. Closing any descriptor of the file drops all of the process' locks: it is opened
// once per process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::emu {

// Thread-compatible.
class RecordLocks {
 public:
  RecordLocks() = default;
  explicit RecordLocks(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  // False when another process holds a byte of [start, start + count) (errno EAGAIN or EACCES), or
  // the file can't be locked at all. Locking what this process holds changes nothing.
  bool try_lock(int64_t start, int64_t count);
  void unlock(int64_t start, int64_t count);
  // Waits for one byte. NRT_TIMEOUT names the process that holds it: it was stopped, or the machine
  // is badly overloaded. NRT_FAILURE at once for a file that can't be locked.
  Status lock(int64_t byte, std::chrono::milliseconds timeout);
  // Pid of another process that holds a byte of the range, as seen in this pid namespace (0: in
  // another one); nothing when free. Own locks don't count.
  std::optional<pid_t> holder(int64_t start, int64_t count) const;
  // Forgets the descriptor without closing it: somebody else did, and its number may be another's.
  void abandon() { static_cast<void>(fd_.release()); }

 private:
  UniqueFd fd_;
};

}  // namespace onrt::emu
