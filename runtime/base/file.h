// SPDX-License-Identifier: Apache-2.0
// Files: opening, and whole files in and out, with messages that name them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt {

// open(2) and openat(2), close-on-exec, for a descriptor that is never 0, 1 or 2: in a process
// whose standard streams are closed, what anybody prints would land in our file. Not valid() on
// failure, with errno. Every file of the runtime and the tools is opened here.
UniqueFd open_file(const std::string& path, int flags, mode_t mode = 0);
UniqueFd open_file_at(int folder, const std::string& path, int flags, mode_t mode = 0);
// The same file behind a descriptor above 2.
UniqueFd above_standard_streams(UniqueFd fd);

// Writes all of it, also in pieces. False with errno.
bool write_fully(int fd, std::string_view text);

// NRT_RESOURCE when a file of `bytes` is beyond `ulimit -f`: the kernel would end the process with
// SIGXFSZ. `what` names the file.
Status check_file_size_limit(uint64_t bytes, std::string_view what);

inline constexpr uint64_t kLargestInputFile = 4ULL << 30;

// NRT_FAILURE names the path and the system's reason; also for folders, for more than `most` bytes
// (a sparse file, a device without end) and when memory doesn't suffice. Read, not mapped: another
// process may cut the file short meanwhile.
Result<std::vector<std::byte>> read_file(const std::string& path,
                                         uint64_t most = kLargestInputFile);

// All or nothing: a temporary file beside `path` takes its name when it is complete, with the
// permissions of the file that it replaces, else those that umask leaves. A symbolic link is
// followed and stays, also one to a file that doesn't exist yet. Something that exists and is no
// regular file (a device, a pipe) is written in place.
Status write_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace onrt
