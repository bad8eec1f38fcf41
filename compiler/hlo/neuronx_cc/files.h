// SPDX-License-Identifier: Apache-2.0
// Questions about files that decide what the command may touch.
#pragma once

#include <string>

namespace onrt::cc {

// Removes a regular file of that name, so that a failed run leaves no older output that looks new.
void remove_output(const std::string& path);

// True if both names lead to one existing file.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace onrt::cc
