// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

namespace onrt {
namespace {

using ::testing::HasSubstr;

class File : public ::testing::Test {
 protected:
  File() { std::filesystem::create_directories(folder_); }
  ~File() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  size_t names() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  mode_t mode(const std::string& name) const {
    struct stat info{};
    return ::stat(path(name).c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
  }

  const std::string folder_ = ::testing::TempDir() + "onrt_file_test." + std::to_string(::getpid());
};

Status write_text(const std::string& path, std::string_view text) {
  return write_file(path, std::as_bytes(std::span(text)));
}

std::string read_text(const std::string& path) {
  const auto bytes = read_file(path);
  return bytes.ok() ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size())
                    : "error: " + std::string(bytes.status().message());
}

// Exit status of `body` in a forked child, or 128 + signal.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(File, WritesAndReadsBack) {
  const std::string text(300000, 'x');
  ASSERT_TRUE(write_text(path("a"), text).ok());
  EXPECT_EQ(read_text(path("a")), text);
  ASSERT_TRUE(write_text(path("a"), "").ok());
  EXPECT_EQ(read_text(path("a")), "");
  EXPECT_EQ(names(), 1u);
}

TEST_F(File, ClosedStandardStreamsAreNotTakenByFiles) {
  EXPECT_EQ(in_child([&] {
              ::close(0);
              ::close(1);
              ::close(2);
              const UniqueFd file = open_file(path("a"), O_RDWR | O_CREAT, 0600);
              const bool free = ::fcntl(0, F_GETFD) < 0 && ::fcntl(2, F_GETFD) < 0;
              const bool kept = (::fcntl(file.get(), F_GETFD) & FD_CLOEXEC) != 0;
              return file.get() > 2 && free && kept ? 0 : 1;
            }),
            0);
}

TEST_F(File, PermissionsAreThoseOfUmaskOrOfTheFileThatIsReplaced) {
  const mode_t old = ::umask(027);
  ASSERT_TRUE(write_text(path("new"), "x").ok());
  ::umask(old);
  EXPECT_EQ(mode("new"), 0640u);
  ASSERT_EQ(::chmod(path("new").c_str(), 0600), 0);
  ASSERT_TRUE(write_text(path("new"), "y").ok());
  EXPECT_EQ(mode("new"), 0600u);
}

TEST_F(File, DevicesPipesAndLinksStayWhatTheyAre) {
  EXPECT_THAT(std::string(write_text("/dev/full", "x").message()), HasSubstr("No space left"));
  EXPECT_TRUE(write_text("/dev/null", "x").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));

  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_text(path("pipe")); });
  EXPECT_TRUE(write_text(path("pipe"), "through").ok());
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));

  std::filesystem::create_directory(path("folder"));
  std::filesystem::create_symlink("folder/target", path("link"));
  for (const char* text : {"while it dangles", "again"}) {
    EXPECT_TRUE(write_text(path("link"), text).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
    EXPECT_EQ(read_text(path("folder/target")), text);
  }
  std::filesystem::create_symlink("round", path("round"));
  EXPECT_THAT(std::string(write_text(path("round"), "x").message()), HasSubstr("symbolic links"));
}

TEST_F(File, LeavesNothingBehindWhenWritingFails) {
  EXPECT_THAT(std::string(write_text(path("absent/a"), "").message()), HasSubstr("absent/a"));
  std::filesystem::create_directories(path("folder/full"));
  EXPECT_FALSE(write_text(path("folder"), "x").ok());
  EXPECT_EQ(names(), 1u);
}

TEST_F(File, AFileSizeLimitIsAnErrorInsteadOfASignal) {
  EXPECT_EQ(in_child([&] {
              const rlimit limit{1000, 1000};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              const Status status = write_text(path("a"), std::string(2000, 'x'));
              const bool said = status.message().find("ulimit -f") != std::string_view::npos;
              return status.code() == NRT_RESOURCE && said ? 0 : 1;
            }),
            0);
  EXPECT_EQ(names(), 0u);
}

TEST_F(File, HugeAndEndlessInputIsRefusedByItsSize) {
  ASSERT_TRUE(write_text(path("sparse"), "x").ok());
  std::filesystem::resize_file(path("sparse"), 200ULL << 30);
  EXPECT_THAT(read_text(path("sparse")), HasSubstr("larger than 4 GiB"));
  EXPECT_THAT(std::string(read_file("/dev/zero", 1 << 20).status().message()),
              HasSubstr("/dev/zero': it is larger than 1 MiB"));
  ASSERT_TRUE(write_text(path("fits"), std::string(1000, 'x')).ok());
  EXPECT_TRUE(read_file(path("fits"), 1000).ok());
  EXPECT_FALSE(read_file(path("fits"), 999).ok());
  EXPECT_THAT(read_text(folder_), HasSubstr("directory"));
}

}  // namespace
}  // namespace onrt
