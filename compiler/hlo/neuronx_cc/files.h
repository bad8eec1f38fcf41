// SPDX-License-Identifier: Apache-2.0
// Whole files in and out.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace onrt::cc {

// Read, not mapped: another process may cut the file short meanwhile.
Result<std::string> read_file(const std::string& path);

// All or nothing: a temporary file beside `path` takes its name when it is complete. Something that
// exists and is no regular file (a device, a pipe) is written in place.
Status write_file(const std::string& path, std::span<const std::byte> bytes);

// Removes a regular file of that name, so that a failed run leaves no older output that looks new.
void remove_output(const std::string& path);

// True if both names lead to one existing file.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace onrt::cc
