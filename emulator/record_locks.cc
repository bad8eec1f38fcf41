// SPDX-License-Identifier: Apache-2.0
#include "emulator/record_locks.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "runtime/base/format.h"

namespace onrt::emu {
namespace {

struct flock range_lock(int type, int64_t start, int64_t count) {
  struct flock lock{};
  lock.l_type = static_cast<short>(type);
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = count;
  return lock;
}

}  // namespace

bool RecordLocks::try_lock(int64_t start, int64_t count) {
  struct flock lock = range_lock(F_WRLCK, start, count);
  int result = 0;
  do {
    result = ::fcntl(fd_.get(), F_SETLK, &lock);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

void RecordLocks::unlock(int64_t start, int64_t count) {
  struct flock lock = range_lock(F_UNLCK, start, count);
  ::fcntl(fd_.get(), F_SETLK, &lock);
}

Status RecordLocks::lock(int64_t byte, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::chrono::microseconds pause{20};
  while (!try_lock(byte, 1)) {
    if (errno != EAGAIN && errno != EACCES) {
      return Status(NRT_FAILURE, format("locking the machine's lock file (descriptor {}): {}",
                                        fd_.get(), std::strerror(errno)));
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return Status(NRT_TIMEOUT,
                    format("the machine's lock was not free within {} ms; pid {} holds "
                           "it",
                           timeout.count(), holder(byte, 1).value_or(0)));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds{2000});
  }
  return ok_status();
}

std::optional<pid_t> RecordLocks::holder(int64_t start, int64_t count) const {
  struct flock lock = range_lock(F_WRLCK, start, count);
  if (::fcntl(fd_.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) {
    return std::nullopt;
  }
  return std::max<pid_t>(lock.l_pid, 0);
}

}  // namespace onrt::emu
