// SPDX-License-Identifier: Apache-2.0
// Whole files, with messages that name them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace onrt::tools {

// NRT_FAILURE names the path and the system's reason; also for folders.
Result<std::vector<std::byte>> read_file(const std::string& path);

// Writes beside `path` first and renames: a reader sees the old file or the whole new one.
Status write_file(const std::string& path, std::span<const std::byte> bytes);

// Prints text to stdout; false (with a line on stderr) when it can't be written, e.g. a full disk.
bool print(const std::string& text);

}  // namespace onrt::tools
