// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/neuronx_cc/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

namespace onrt::cc {
namespace {

using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  Files() { std::filesystem::create_directories(folder_); }
  ~Files() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  const std::string folder_ =
      ::testing::TempDir() + "onrt_files_test." + std::to_string(::getpid());
};

TEST_F(Files, WritesAndReadsBack) {
  const std::string text(300000, 'x');
  ASSERT_TRUE(write_file(path("a"), std::as_bytes(std::span(text))).ok());
  EXPECT_EQ(*read_file(path("a")), text);
}

TEST_F(Files, HonoursTheFileModeMask) {
  const mode_t old = umask(027);
  ASSERT_TRUE(write_file(path("a"), {}).ok());
  umask(old);
  struct stat info{};
  ASSERT_EQ(stat(path("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640U);
}

TEST_F(Files, LeavesNothingBehindWhenWritingFails) {
  EXPECT_THAT(std::string(write_file(path("absent/a"), {}).message()), HasSubstr("absent/a"));
  std::filesystem::create_directories(path("folder/full"));
  EXPECT_FALSE(write_file(path("folder"), {}).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(Files, RemovesOnlyRegularFiles) {
  ASSERT_TRUE(write_file(path("a"), {}).ok());
  remove_output(path("a"));
  EXPECT_FALSE(std::filesystem::exists(path("a")));
  std::filesystem::create_directories(path("b"));
  remove_output(path("b"));
  EXPECT_TRUE(std::filesystem::exists(path("b")));
}

TEST_F(Files, KnowsOneFileByTwoNames) {
  ASSERT_TRUE(write_file(path("a"), {}).ok());
  std::filesystem::create_symlink(path("a"), path("b"));
  EXPECT_TRUE(is_same_file(path("a"), path("b")));
  EXPECT_FALSE(is_same_file(path("a"), path("c")));
}

}  // namespace
}  // namespace onrt::cc
