// SPDX-License-Identifier: Apache-2.0
// Files of the disk cache. Everything below the cache's folder is reached from its descriptor and
// without following links, so nobody who can't write there can lead us elsewhere.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::cache {

// "text: what errno says".
Status errno_status(std::string text, int error);

// Path of a cache URL: a path, or file:// and an absolute path. NRT_INVALID for s3:// and others.
Result<std::string> path_of_url(std::string_view url);

enum class Absent { kIsAnError, kIsMade };

// Opens the cache's folder; missing ones on the way are made for this user only. Errors (the
// message names the folder and the reason): a link, or a folder, of a user who is neither this one
// nor root; a folder that everybody may write; no folder; no permission.
Result<UniqueFd> open_trusted_folder(const std::string& path, Absent absent);

// A folder in `parent`, not a link. Same checks. `name` in messages.
Result<UniqueFd> open_folder_at(int parent, const std::string& name, Absent absent);

// A regular file of at most `limit` bytes. Errors: NRT_INVALID for another kind of file or a larger
// one, NRT_RESOURCE without memory for it, NRT_FAILURE from the system; the message starts with
// `name`.
Result<std::vector<std::byte>> read_file_at(int folder, const char* name, size_t limit);

// Makes a new file. A failure may leave a part of it.
Status write_file_at(int folder, const char* name, std::span<const std::byte> bytes);

// Names in a folder, without "." and "..", sorted.
Result<std::vector<std::string>> names_in(int folder);

// A folder and what is in it, or a file; absence is fine. One level of folders is enough for an
// entry; deeper ones are an error.
Status remove_at(int parent, const std::string& name);

}  // namespace onrt::cache
