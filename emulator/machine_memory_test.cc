// SPDX-License-Identifier: Apache-2.0
// Memory of a machine that the file system has to give.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "emulator/machine_admin.h"
#include "emulator/machine_snapshot.h"
#include "emulator/testing.h"
#include "runtime/base/unique_fd.h"

namespace onrt::emu {
namespace {

using testing::failure_of;
using testing::in_child;
using testing::TestMachine;

constexpr uint64_t kMiB = 1 << 20;
constexpr int kNotAllowed = 77;  // exit status: no namespaces here

bool write_text(const char* path, const std::string& text) {
  const UniqueFd fd(::open(path, O_WRONLY));
  return ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// A user and mount namespace of its own for this process; same user and group.
bool enter_own_mounts() {
  const std::string user = std::to_string(::geteuid());
  const std::string group = std::to_string(::getegid());
  return ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
         write_text("/proc/self/uid_map", user + " " + user + " 1") &&
         write_text("/proc/self/setgroups", "deny") &&
         write_text("/proc/self/gid_map", group + " " + group + " 1");
}

TEST(MachineBacking, AFullFileSystemIsAnErrorAndNotASignal) {
  const TestMachine machine;
  const int status = in_child([&] {
    const std::string folder = machine.folder() + "/machines";
    std::filesystem::create_directory(folder);
    if (!enter_own_mounts() ||
        ::mount("none", folder.c_str(), "tmpfs", 0, "size=4m,mode=0700") != 0) {
      return kNotAllowed;
    }
    const Context context = machine.context({"OPENNRT_EMU_HBM_BACKING=1GiB"});
    const auto file = machine.attach(context);
    if (!file.ok()) {
      std::fprintf(stderr, "%s\n", failure_of(file.status()).c_str());
      return 1;
    }
    const auto extent = (*file)->allocate(0, 64 * kMiB, 4096);
    if (!extent.ok()) {
      return 2;
    }
    const Status full = (*file)->commit(**extent, (*extent)->offset(), 64 * kMiB);
    if (full.code() != NRT_RESOURCE ||
        full.message().find("No space left") == std::string_view::npos) {
      return 3;
    }
    // What does fit still works, and nothing was kept by the failure.
    return (*file)->commit(**extent, (*extent)->offset(), 2 * kMiB).ok() ? 0 : 4;
  });
  if (status == kNotAllowed) {
    GTEST_SKIP() << "user namespaces with mounts are not allowed here";
  }
  EXPECT_EQ(status, 0);
}

TEST(MachineBacking, TheDefaultLimitFollowsTheSpaceThatIsFree) {
  const TestMachine machine;
  const int status = in_child([&] {
    const std::string folder = machine.folder() + "/machines";
    std::filesystem::create_directory(folder);
    if (!enter_own_mounts() ||
        ::mount("none", folder.c_str(), "tmpfs", 0, "size=4m,mode=0700") != 0) {
      return kNotAllowed;
    }
    const Context context = machine.context();
    const uint64_t small =
        create_machine(context).ok() ? read_machine(machine.directory())->committed_limit : 0;
    if (::mount("none", folder.c_str(), "tmpfs", MS_REMOUNT, "size=64m,mode=0700") != 0) {
      return kNotAllowed;
    }
    if (!reset_machine(context, machine.directory()).ok() ||
        read_machine(machine.directory())->committed_limit < 16 * kMiB) {
      return 2;
    }
    if (::mount("none", folder.c_str(), "tmpfs", MS_REMOUNT, "size=128m,mode=0700") != 0) {
      return kNotAllowed;
    }
    const auto file = machine.attach(context);
    const bool grown = read_machine(machine.directory())->committed_limit > 48 * kMiB;
    return small > 0 && small <= 2 * kMiB && file.ok() && grown ? 0 : 3;
  });
  if (status == kNotAllowed) {
    GTEST_SKIP() << "user namespaces with mounts are not allowed here";
  }
  EXPECT_EQ(status, 0);
}

TEST(MachineBacking, AFileSizeLimitIsAnErrorInsteadOfASignal) {
  const TestMachine machine;
  EXPECT_EQ(in_child([&] {
              const rlimit limit{1 << 20, 1 << 20};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              const Context context = machine.context();
              const Status status = machine.attach(context).status();
              return status.code() == NRT_RESOURCE &&
                             status.message().find("ulimit -f") != std::string_view::npos
                         ? 0
                         : 1;
            }),
            0);
  const Context context = machine.context();
  EXPECT_EQ(in_child([&] {
              const rlimit limit{sizeof(ControlFile), sizeof(ControlFile)};
              const auto file = machine.attach(context);
              ::setrlimit(RLIMIT_FSIZE, &limit);
              const Status status = (*file)->allocate(0, kMiB, 4096).status();
              return status.code() == NRT_RESOURCE &&
                             status.message().find("ulimit -f") != std::string_view::npos
                         ? 0
                         : 1;
            }),
            0);
}

TEST(MachineBacking, ExactExtentsFillTheStack) {
  const TestMachine machine;
  const Context context = machine.context();
  const auto file = machine.attach(context);
  ASSERT_TRUE(file.ok());
  std::vector<std::shared_ptr<Extent>> extents;
  for (uint64_t size : {64 * kMiB, 64 * kMiB, 64 * kMiB, 48 * kMiB - 4096, uint64_t{4096}}) {
    auto extent = (*file)->allocate(0, size, 4096);
    ASSERT_TRUE(extent.ok()) << size << ": " << extent.status().message();
    extents.push_back(std::move(extent).value());
  }
  EXPECT_EQ((*file)->usage(0)->largest, 0u);
  ASSERT_TRUE((*file)->free(extents[1]).ok());
  EXPECT_EQ((*file)->usage(0)->largest, 64 * kMiB);
  EXPECT_EQ((*file)->commit(*extents[1], extents[1]->offset(), 1).code(), NRT_INVALID);
  EXPECT_EQ((*file)->allocate(0, 64 * kMiB, 4096).value()->offset(), extents[1]->offset());
}

}  // namespace
}  // namespace onrt::emu
