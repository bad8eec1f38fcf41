// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/neuronx_cc/files.h"

#include <sys/stat.h>
#include <unistd.h>

namespace onrt::cc {

void remove_output(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
    unlink(path.c_str());
  }
}

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat first{};
  struct stat second{};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace onrt::cc
