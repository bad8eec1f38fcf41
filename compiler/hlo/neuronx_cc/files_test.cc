// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/neuronx_cc/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace onrt::cc {
namespace {

class Files : public ::testing::Test {
 protected:
  Files() {
    std::filesystem::create_directories(folder_);
    std::ofstream(path("a")) << "text";
  }
  ~Files() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  const std::string folder_ =
      ::testing::TempDir() + "onrt_files_test." + std::to_string(::getpid());
};

TEST_F(Files, RemovesOnlyRegularFiles) {
  remove_output(path("a"));
  EXPECT_FALSE(std::filesystem::exists(path("a")));
  std::filesystem::create_directories(path("b"));
  remove_output(path("b"));
  EXPECT_TRUE(std::filesystem::exists(path("b")));
}

TEST_F(Files, KnowsOneFileByTwoNames) {
  std::filesystem::create_symlink(path("a"), path("b"));
  EXPECT_TRUE(is_same_file(path("a"), path("b")));
  EXPECT_FALSE(is_same_file(path("a"), path("c")));
}

}  // namespace
}  // namespace onrt::cc
