// SPDX-License-Identifier: Apache-2.0
#include "compiler/cache/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <thread>

#include "compiler/cache/files.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cache {
namespace {

constexpr std::string_view kLockEnd = ".lock";
constexpr std::string_view kTemporaryEnd = ".tmp";
// flock() has no timeout: try again, at first at once.
constexpr auto kShortestPause = std::chrono::milliseconds(1);
constexpr auto kLongestPause = std::chrono::milliseconds(20);

// True if the name still leads to the file: its holder may have removed it before we got the lock.
bool is_current(int folder, const std::string& name, int file) {
  struct stat by_name{};
  struct stat by_file{};
  return ::fstatat(folder, name.c_str(), &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(file, &by_file) == 0 && by_name.st_ino == by_file.st_ino &&
         by_name.st_dev == by_file.st_dev;
}

}  // namespace

std::string lock_file_name(const std::string& name) { return format(".{}{}", name, kLockEnd); }
std::string temporary_name(const std::string& name) { return format(".{}{}", name, kTemporaryEnd); }

std::string entry_of_leftover(const std::string& file) {
  for (const std::string_view end : {kLockEnd, kTemporaryEnd}) {
    if (file.starts_with(".MODULE_") && file.ends_with(end)) {
      return file.substr(1, file.size() - 1 - end.size());
    }
  }
  return "";
}

Result<EntryLock> EntryLock::take(int folder, const std::string& name,
                                  std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const std::string file_name = lock_file_name(name);
  auto pause = kShortestPause;
  while (true) {
    UniqueFd file(open_file_at(folder, file_name,
                               O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0664));
    if (!file.valid()) {
      return errno_status(format("'{}' cannot be made", file_name), errno);
    }
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      if (is_current(folder, file_name, file.get())) {
        UniqueFd own(::fcntl(folder, F_DUPFD_CLOEXEC, 3));
        if (!own.valid()) {
          return errno_status(format("'{}'", file_name), errno);
        }
        return EntryLock(std::move(own), std::move(file), file_name);
      }
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return errno_status(format("'{}' cannot be locked", file_name), errno);
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status(NRT_TIMEOUT, format("'{}' has been locked by another process for {} s",
                                        file_name, patience.count() / 1000));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

EntryLock::~EntryLock() {
  if (file_.valid()) {
    ::unlinkat(folder_.get(), file_name_.c_str(), 0);
    // A child that was forked meanwhile shares the lock; closing alone would leave it the child's.
    ::flock(file_.get(), LOCK_UN);
  }
}

}  // namespace onrt::cache
