// SPDX-License-Identifier: Apache-2.0
// Files in the form of /proc (Linux manual page proc(5)).
#include "runtime/observe/host_load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace onrt::observe {
namespace {

class Proc : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/onrt-proc-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    root_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + "/" + name).parent_path());
    std::ofstream(root_ + "/" + name) << text;
  }
  std::string root_;
};

TEST_F(Proc, VcpusAreReadWithTheirNumbers) {
  write("stat",
        "cpu  10 2 30 400 5 6 7 8 9 10\ncpu0 4 1 10 200 2 3 4\ncpu3 6 1 20 200 3 3 3\n"
        "intr 1 2 3\nctxt 1234\nbtime 5\n");
  const auto times = read_host_times(root_);
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->all, (CpuTimes{10, 2, 30, 400, 5, 6, 7}));
  ASSERT_EQ(times->each.size(), 2u);
  EXPECT_EQ(times->each[1].first, 3);
  EXPECT_EQ(times->context_switches, 1234u);
}

TEST_F(Proc, SharesAddUpToAHundred) {
  const auto percent = cpu_percent({10, 0, 0, 100, 0, 0, 0}, {20, 0, 30, 160, 0, 0, 0});
  EXPECT_DOUBLE_EQ(percent[0], 10);
  EXPECT_DOUBLE_EQ(percent[2], 30);
  EXPECT_DOUBLE_EQ(percent[3], 60);
  EXPECT_DOUBLE_EQ(cpu_percent({1}, {1})[0], 0);
}

TEST_F(Proc, MemoryIsTotalWithoutWhatIsAvailable) {
  write("meminfo",
        "MemTotal:        1000 kB\nMemFree:  100 kB\nMemAvailable:     400 kB\n"
        "SwapCached: 1 kB\nSwapTotal:  50 kB\nSwapFree:   20 kB\n");
  const auto info = read_memory_info(root_);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->total, 1024000u);
  EXPECT_EQ(info->used, 600u * 1024);
  EXPECT_EQ(info->swap_used, 30u * 1024);
}

TEST_F(Proc, AProcessNameMayHoldAnything) {
  write("7/stat", "7 (a) b) (c 1) S 1 2 3 4 5 6 7 8 9 10 111 222 0 0 20 0 1 0 99\n");
  write("7/status", "Name:\tx\nRssAnon:\t     12 kB\nRssFile: 3 kB\n");
  const auto load = read_process_load(7, root_);
  ASSERT_TRUE(load.has_value());
  EXPECT_EQ(load->user_ticks, 111u);
  EXPECT_EQ(load->system_ticks, 222u);
  EXPECT_EQ(load->private_bytes, 12u * 1024);
  EXPECT_FALSE(read_process_load(8, root_).has_value());
}

TEST_F(Proc, MissingAndStrangeFilesAreErrors) {
  EXPECT_FALSE(read_host_times(root_).ok());
  EXPECT_FALSE(read_memory_info(root_).ok());
  write("stat", "garbage");
  write("meminfo", "MemTotal: x\n");
  EXPECT_FALSE(read_host_times(root_).ok());
  EXPECT_FALSE(read_memory_info(root_).ok());
}

TEST(HostLoad, ThisHostCanBeRead) {
  EXPECT_TRUE(read_host_times().ok());
  EXPECT_TRUE(read_memory_info().ok());
  EXPECT_TRUE(read_process_load(::getpid()).has_value());
}

}  // namespace
}  // namespace onrt::observe
