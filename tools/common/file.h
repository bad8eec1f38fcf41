// SPDX-License-Identifier: Apache-2.0
// Whole files, as the tools see them (runtime/base/file.h), and standard output.
#pragma once

#include <string>

#include "runtime/base/file.h"

namespace onrt::tools {

using onrt::read_file;
using onrt::write_file;

// Prints text to stdout; false (with a line on stderr) when it can't be written, e.g. a full disk.
bool print(const std::string& text);

// main() of a tool: `run`, and one line on stderr instead of an abort when memory runs out.
int run_tool(const char* name, int (*run)(int argc, char** argv), int argc, char** argv);

}  // namespace onrt::tools
