// SPDX-License-Identifier: Apache-2.0
// Who may use a machine directory, and where it may be.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "emulator/machine_admin.h"
#include "emulator/machine_snapshot.h"
#include "emulator/testing.h"

namespace onrt::emu {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;
using testing::in_child;
using testing::TestMachine;

constexpr uint64_t kMiB = 1 << 20;

TEST(MachineTrust, OnlyTheOwnerAndTheMachineGroupAreTrusted) {
  struct stat status{};
  status.st_uid = ::geteuid();
  status.st_mode = S_IFDIR | 0700;
  EXPECT_TRUE(check_trusted(status, {}, "x").ok());
  status.st_mode = S_IFDIR | 0720;
  EXPECT_THAT(failure_of(check_trusted(status, {}, "x")), HasSubstr("mode 720"));
  status.st_mode = S_IFDIR | 0700;
  status.st_uid = ::geteuid() + 1;
  EXPECT_THAT(failure_of(check_trusted(status, {}, "x")), HasSubstr("belongs to user"));
  Sharing sharing;
  sharing.group = 1234;
  EXPECT_FALSE(check_trusted(status, sharing, "x").ok());
  status.st_gid = 1234;
  status.st_mode = S_IFDIR | 02770;
  EXPECT_TRUE(check_trusted(status, sharing, "x").ok());
  status.st_mode = S_IFDIR | 02771;
  EXPECT_FALSE(check_trusted(status, sharing, "x").ok());
}

TEST(MachineTrust, FilesAndFoldersArePrivate) {
  const TestMachine machine;
  const Context context = machine.context();
  ASSERT_TRUE(machine.attach(context).ok());
  struct stat status{};
  ASSERT_EQ(::stat(machine.directory().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  for (const std::string& file : machine.files()) {
    ASSERT_EQ(::stat((machine.directory() + "/" + file).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u) << file;
  }
}

TEST(MachineTrust, LinksAndOddFilesAreRefused) {
  const TestMachine machine;
  const Context context = machine.context();
  ASSERT_TRUE(machine.attach(context).ok());
  const std::string control = machine.directory() + "/control";
  std::filesystem::rename(control, control + ".real");
  std::filesystem::create_symlink(control + ".real", control);
  EXPECT_THAT(failure_of(machine.attach(context).status()), HasSubstr("symbolic link"));
  EXPECT_FALSE(read_machine(machine.directory()).ok());
  std::filesystem::remove(control);
  std::filesystem::create_hard_link(control + ".real", control);
  EXPECT_THAT(failure_of(machine.attach(context).status()), HasSubstr("one name"));
  std::filesystem::remove(control);
  ASSERT_EQ(::mkfifo(control.c_str(), 0600), 0);
  EXPECT_THAT(failure_of(machine.attach(context).status()), HasSubstr("plain file"));
  EXPECT_FALSE(read_machine(machine.directory()).ok());
}

TEST(MachineTrust, PermissionsDoNotDependOnUmask) {
  for (const mode_t mask : {mode_t{0277}, mode_t{0777}, mode_t{0}}) {
    const TestMachine machine;
    const Context context = machine.context();
    const mode_t old = ::umask(mask);
    const auto file = machine.attach(context);
    const bool extent = file.ok() && (*file)->allocate(0, kMiB, 4096).ok();
    ::umask(old);
    ASSERT_TRUE(extent) << failure_of(file.status());
    struct stat status{};
    for (const std::string& name : machine.files()) {
      ASSERT_EQ(::stat((machine.directory() + "/" + name).c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 07777, 0600u) << name;
    }
    ASSERT_EQ(::stat(machine.directory().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0700u);
  }
}

TEST(MachineTrust, AReadOnlyParentIsNamedWithItsReason) {
  const TestMachine machine;
  const Context context = machine.context();
  std::filesystem::create_directory(machine.folder() + "/machines");
  ASSERT_EQ(::chmod((machine.folder() + "/machines").c_str(), 0500), 0);
  ASSERT_EQ(::chmod(machine.folder().c_str(), 0755), 0);
  const int status = in_child([&] {
    if (::geteuid() == 0) {
      if (::chown((machine.folder() + "/machines").c_str(), 12345, 12345) != 0 ||
          ::setresgid(12345, 12345, 12345) != 0 || ::setresuid(12345, 12345, 12345) != 0) {
        return 1;
      }
    }
    const std::string attached = failure_of(machine.attach(context).status());
    const std::string read = failure_of(read_selected_machine(context).status());
    std::fprintf(stderr, "%s\n%s\n", attached.c_str(), read.c_str());
    return attached.find("machines/box.v2: Permission denied") != std::string::npos &&
                   read.find("Permission denied") != std::string::npos
               ? 0
               : 2;
  });
  EXPECT_EQ(status, 0);
}

// Others may write to /dev/shm: what they plant there is refused before anything is made in it.
TEST(MachineTrust, APlantedDefaultRootIsRefusedUntouched) {
  const TestMachine machine;
  const Context context = machine.context();
  auto place = machine_place(context, "box");
  ASSERT_TRUE(place.ok());
  place->root_was_chosen = false;
  const std::string trap = machine.folder() + "/trap";
  std::filesystem::create_directory(trap);
  std::filesystem::create_symlink(trap, place->root);
  const auto profile = find_profile(context, "box");
  for (int kind = 0; kind < 3; ++kind) {
    const Status status = MachineFile::attach(context, *place, *profile, {}).status();
    EXPECT_EQ(status.code(), NRT_FAILURE);
    EXPECT_THAT(failure_of(status), HasSubstr("set OPENNRT_MACHINE_DIR to a folder of yours"));
    EXPECT_TRUE(std::filesystem::is_empty(trap));
    std::filesystem::remove_all(place->root);
    if (kind == 0) {
      std::ofstream(place->root) << "a file";
    } else {
      std::filesystem::create_directory(place->root);
      ASSERT_EQ(::chmod(place->root.c_str(), 0777), 0);
    }
  }
}

TEST(MachineTrust, ClosedStandardStreamsAreNotTaken) {
  const TestMachine machine;
  const Context context = machine.context();
  EXPECT_EQ(in_child([&] {
              ::close(0);
              ::close(1);
              ::close(2);
              const auto file = machine.attach(context);
              if (!file.ok()) {
                return 2;
              }
              const auto extent = (*file)->allocate(0, kMiB, 4096);
              const auto shared = (*file)->share(0);
              const bool free =
                  ::fcntl(0, F_GETFD) < 0 && ::fcntl(1, F_GETFD) < 0 && ::fcntl(2, F_GETFD) < 0;
              return extent.ok() && shared.ok() && *shared > 2 && free ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(machine.attach(context).ok());
}

TEST(MachineTrust, ARelativeFolderMeansTheSameAfterAChangeOfDirectory) {
  const TestMachine machine;
  EXPECT_EQ(in_child([&] {
              Context context;
              context.settings = Settings::from_strings({"OPENNRT_MACHINE_DIR=relative"});
              context.log = std::make_unique<Logger>(context.settings);
              if (::chdir(machine.folder().c_str()) != 0) {
                return 1;
              }
              const std::string first = machine_place(context, "box")->root;
              if (::chdir("/") != 0 || reader_roots(context) != std::vector<std::string>{first}) {
                return 2;
              }
              return first == machine.folder() + "/relative" &&
                             machine_place(context, "box")->root == first
                         ? 0
                         : 3;
            }),
            0);
}

}  // namespace
}  // namespace onrt::emu
