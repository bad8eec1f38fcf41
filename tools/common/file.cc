// SPDX-License-Identifier: Apache-2.0
#include "tools/common/file.h"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

namespace onrt::tools {

bool print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return true;
  }
  std::fprintf(stderr, "%s: cannot write to standard output: %s\n", program_invocation_short_name,
               std::generic_category().message(errno).c_str());
  return false;
}

int run_tool(const char* name, int (*run)(int argc, char** argv), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: host memory ran out\n", name);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
  }
  return 1;
}

}  // namespace onrt::tools
