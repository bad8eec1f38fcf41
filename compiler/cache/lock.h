// SPDX-License-Identifier: Apache-2.0
// A lock between processes that leaves no file behind: ".<name>.lock" beside an entry exists only
// while somebody holds it or died holding it.
#pragma once

#include <chrono>
#include <string>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::cache {

// Held until destroyed; flock(2), so it ends with the process however that dies. Movable.
class EntryLock {
 public:
  EntryLock(EntryLock&& other) noexcept = default;
  EntryLock& operator=(EntryLock&&) = delete;
  ~EntryLock();

  // Waits for other processes and for other locks of this one. Errors: NRT_TIMEOUT after
  // `patience` (0: a single try), NRT_FAILURE from the system, e.g. in a folder that is read-only.
  static Result<EntryLock> take(int folder, const std::string& name,
                                std::chrono::milliseconds patience);

 private:
  EntryLock(UniqueFd folder, UniqueFd file, std::string file_name)
      : folder_(std::move(folder)), file_(std::move(file)), file_name_(std::move(file_name)) {}

  UniqueFd folder_;
  UniqueFd file_;
  std::string file_name_;
};

std::string lock_file_name(const std::string& name);
// Where an entry is written before it gets its name. Only the lock's holder touches it.
std::string temporary_name(const std::string& name);

// The entry's name if `file` is one of the above for it, else "".
std::string entry_of_leftover(const std::string& file);

}  // namespace onrt::cache
