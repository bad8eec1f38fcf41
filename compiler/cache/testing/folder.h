// SPDX-License-Identifier: Apache-2.0
// For tests: a temporary folder and child processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "compiler/cache/entry.h"

namespace onrt::cache {

class TestFolder {
 public:
  TestFolder() {
    std::string name = ::testing::TempDir() + "onrt_cache.XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TestFolder() {
    std::error_code ignored;  // a test may have made it read-only on purpose
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

  // Everything below, as paths relative to it, sorted.
  std::vector<std::string> tree() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      names.push_back(entry.path().string().substr(path_.size() + 1));
    }
    std::ranges::sort(names);
    return names;
  }
  // The only file of that name below.
  std::string find(const std::string& name) const {
    std::string found;
    for (const std::string& each : tree()) {
      if (std::filesystem::path(each).filename() == name) {
        EXPECT_EQ(found, "");
        found = path(each);
      }
    }
    EXPECT_NE(found, "") << name;
    return found;
  }

 private:
  std::string path_;
};

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Exit status of a child that runs `body`; 1000 + signal if it was killed.
inline int wait_for(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) {
    return -1;
  }
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}
inline pid_t start_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(body());
  }
  return child;
}

inline Key test_key(uint8_t number) {
  Key made;
  made.graph.fill(number);
  return made;
}

// `size` bytes that depend on `number`.
inline Program test_program(uint8_t number, size_t size = 100) {
  Program made{std::vector<std::byte>(size), ""};
  for (size_t i = 0; i < size; ++i) {
    made.neff[i] = static_cast<std::byte>(i * 7 + number);
  }
  return made;
}

}  // namespace onrt::cache
