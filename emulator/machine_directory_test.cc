// SPDX-License-Identifier: Apache-2.0
// The machine directory: who may use it, damage, races of making and removing, readers.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "emulator/machine_admin.h"
#include "emulator/machine_snapshot.h"
#include "emulator/testing.h"
#include "runtime/base/unique_fd.h"

namespace onrt::emu {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::in_child;
using ::testing::IsEmpty;
using testing::start_child;
using testing::TestMachine;
using testing::wait_child;

constexpr uint64_t kMiB = 1 << 20;
constexpr int kNotAllowed = 77;  // exit status: no namespaces here

// Writes `bytes` at `offset` of the machine's control file.
void damage(const TestMachine& machine, size_t offset, std::string_view bytes) {
  const UniqueFd fd(::open((machine.directory() + "/control").c_str(), O_WRONLY));
  ASSERT_EQ(::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
            static_cast<ssize_t>(bytes.size()));
}

template <class T>
void damage_field(const TestMachine& machine, size_t offset, T value) {
  damage(machine, offset, {reinterpret_cast<const char*>(&value), sizeof(value)});
}

std::string failure_of(const Status& status) { return std::string(status.message()); }

// ---- trust ------------------------------------------------------------------------------------

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

// ---- damage -----------------------------------------------------------------------------------

TEST(MachineDamage, EveryKindOfDamageGetsOneSentence) {
  struct Row {
    size_t offset;
    uint32_t value;
    const char* expected;
  };
  using C = ControlFile;
  const size_t profile = offsetof(C, profile);
  const size_t device = offsetof(C, devices);
  for (const Row& row :
       {Row{0, 0x41414141, "mark of an OpenNRT machine"},
        Row{offsetof(ControlHeader, layout_version), 0, "has layout 0"},
        Row{offsetof(ControlHeader, layout_version), 99, "has layout 99"},
        Row{offsetof(ControlHeader, file_bytes), 1, "bytes, expected"},
        Row{profile + offsetof(ProfileRecord, device_count), 0xffffffff, "impossible counts"},
        Row{profile + offsetof(ProfileRecord, physical_cores_per_device), 0, "impossible counts"},
        Row{profile + offsetof(ProfileRecord, max_logical_core_size), 3, "impossible counts"},
        Row{profile + offsetof(ProfileRecord, hbm_per_device), 9, "impossible counts"},
        Row{profile + offsetof(ProfileRecord, hbm_bytes), 1, "impossible HBM size"},
        Row{profile + offsetof(ProfileRecord, hbm_base) + 8, 1, "impossible HBM addresses"},
        Row{device + offsetof(DeviceRecord, link_count), 1000, "1000 links"},
        Row{device + offsetof(DeviceRecord, links), 0x7fffffff, "link to device"}}) {
    const TestMachine machine;
    const Context context = machine.context();
    ASSERT_TRUE(machine.attach(context).ok());
    damage_field(machine, row.offset, row.value);
    for (const Status& status :
         {machine.attach(context).status(), read_machine(machine.directory()).status()}) {
      EXPECT_EQ(status.code(), NRT_FAILURE) << row.expected;
      EXPECT_THAT(failure_of(status), AllOf(HasSubstr(row.expected), HasSubstr("damaged")));
      EXPECT_EQ(std::count(status.message().begin(), status.message().end(), '\n'), 0);
    }
    EXPECT_TRUE(remove_machine(context, machine.directory()).ok());
    EXPECT_TRUE(machine.attach(context).ok());
  }
}

TEST(MachineDamage, TruncatedAndLongerFilesAreRefused) {
  for (const uint64_t size : {uint64_t{1}, uint64_t{64}, uint64_t{100000}, sizeof(ControlFile) - 1,
                              sizeof(ControlFile) + 1}) {
    const TestMachine machine;
    const Context context = machine.context();
    ASSERT_TRUE(machine.attach(context).ok());
    std::filesystem::resize_file(machine.directory() + "/control", size);
    EXPECT_THAT(failure_of(machine.attach(context).status()), HasSubstr("bytes, expected"));
    EXPECT_FALSE(read_machine(machine.directory()).ok());
  }
}

TEST(MachineDamage, ImpossibleExtentsAreFoundAtTheNextAllocation) {
  const TestMachine machine;
  const Context context = machine.context();
  const auto file = machine.attach(context);
  ASSERT_TRUE(file.ok());
  const auto extent = (*file)->allocate(2, kMiB, 4096);
  ASSERT_TRUE(extent.ok());
  const size_t record =
      offsetof(ControlFile, extents) + 2 * kMaxExtentsPerStack * sizeof(ExtentRecord);
  damage_field<uint64_t>(machine, record + offsetof(ExtentRecord, offset), ~0ULL - 4095);
  const Status status = (*file)->allocate(2, kMiB, 4096).status();
  EXPECT_EQ(status.code(), NRT_FAILURE);
  EXPECT_THAT(failure_of(status), HasSubstr("extent 0 of ND 1 HBM 0"));
  EXPECT_TRUE((*file)->allocate(1, kMiB, 4096).ok());
  EXPECT_TRUE(read_machine(machine.directory()).ok());
}

TEST(MachineDamage, WildSlotsAndOwnersHarmNobody) {
  const TestMachine machine;
  const Context context = machine.context();
  ASSERT_TRUE(machine.attach(context).ok());
  damage_field<uint32_t>(machine, offsetof(ControlHeader, slot_high_water), ~0U);
  damage_field<uint32_t>(machine, offsetof(ControlFile, cores), ~0U);
  damage_field<uint32_t>(machine, offsetof(ControlFile, cores) + sizeof(CoreRecord), 200);
  damage_field<uint32_t>(machine, offsetof(ControlFile, stacks), ~0U);
  damage_field<uint32_t>(machine, offsetof(ControlFile, processes), 77);
  damage_field<uint32_t>(machine, offsetof(ControlFile, journal), 1234);
  const auto snapshot = read_machine(machine.directory());
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  const auto file = machine.attach(context);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE((*file)->owners().ok());
  EXPECT_EQ((*file)->claim(0, 1, 1).status().code(), NRT_RESOURCE);
  EXPECT_TRUE((*file)->claim(2, 1, 1).ok());
}

TEST(MachineDamage, MemoryOfAnEarlierBootIsNotShown) {
  const TestMachine machine;
  const Context context = machine.context();
  EXPECT_EQ(in_child([&] {
              const auto file = machine.attach(context);
              const auto extent = (*file)->allocate(0, kMiB, 4096);
              if (!extent.ok() || !(*file)->commit(**extent, (*extent)->offset(), kMiB).ok()) {
                return 1;
              }
              std::memset((*extent)->data(), 0x6B, kMiB);
              return ::kill(::getpid(), SIGKILL);
            }),
            128 + SIGKILL);
  damage_field<uint64_t>(machine, offsetof(ControlHeader, boot_nonce), 1);
  const auto file = machine.attach(context);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_THAT(machine.files(), ElementsAre("control", "locks"));
  const auto extent = (*file)->allocate(0, kMiB, 4096);
  ASSERT_TRUE((*file)->commit(**extent, (*extent)->offset(), kMiB).ok());
  EXPECT_EQ((*extent)->data()[0], std::byte{0});
}

TEST(MachineDamage, AFileThatIsEmptiedWhileInUseIsNotMadeAnew) {
  const TestMachine machine;
  const Context context = machine.context();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = start_child([&] {
    const auto file = machine.attach(context);
    static_cast<void>(!::write(ready[1], "y", 1));
    ::pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  damage(machine, 0, std::string(8, '\0'));
  EXPECT_THAT(failure_of(machine.attach(context).status()),
              HasSubstr("emptied while processes use the machine"));
  ::kill(child, SIGKILL);
  wait_child(child);
  EXPECT_TRUE(machine.attach(context).ok());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(MachineDamage, AnyKindOfFileInPlaceOfOursCanBeRemoved) {
  for (const char* name : {"control", "locks", "nd0.hbm0"}) {
    for (const char* kind : {"folder", "link", "pipe"}) {
      const TestMachine machine;
      const Context context = machine.context();
      ASSERT_TRUE(machine.attach(context).ok());
      const std::string path = machine.directory() + "/" + name;
      std::filesystem::remove(path);
      if (kind == std::string_view("folder")) {
        std::filesystem::create_directory(path);
      } else if (kind == std::string_view("link")) {
        std::filesystem::create_symlink("/etc/hostname", path);
      } else {
        ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
      }
      if (name != std::string_view("nd0.hbm0")) {
        // What nrt_init() refuses is no idle machine for readers.
        EXPECT_FALSE(machine.attach(context).ok()) << name << " " << kind;
        EXPECT_THAT(failure_of(read_selected_machine(context).status()), HasSubstr(name)) << kind;
        EXPECT_FALSE(check_selected_machine(context, std::chrono::milliseconds(0)).ok());
      }
      const Status removed = remove_machine(context, machine.directory());
      EXPECT_TRUE(removed.ok()) << name << " " << kind << ": " << removed.message();
      EXPECT_FALSE(std::filesystem::exists(machine.directory()));
    }
  }
  EXPECT_TRUE(std::filesystem::exists("/etc/hostname"));
}

TEST(MachineDamage, AFolderThatOthersMayChangeIsNoIdleMachine) {
  const TestMachine machine;
  const Context context = machine.context();
  std::filesystem::create_directories(machine.directory());
  ASSERT_EQ(::chmod(machine.directory().c_str(), 0777), 0);
  EXPECT_THAT(failure_of(read_selected_machine(context).status()), HasSubstr("mode 777"));
}

TEST(MachineDamage, AStoppedHolderOfTheLockIsNamed) {
  const TestMachine machine;
  const Context context = machine.context();
  ASSERT_TRUE(create_machine(context).ok());
  EXPECT_TRUE(check_selected_machine(context, std::chrono::milliseconds(0)).ok());
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = start_child([&] {
    RecordLocks locks(UniqueFd(::open((machine.directory() + "/locks").c_str(), O_RDWR)));
    static_cast<void>(locks.try_lock(kMachineLockByte, 1));
    static_cast<void>(!::write(ready[1], "y", 1));
    ::pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const Status status = check_selected_machine(context, std::chrono::milliseconds(20));
  EXPECT_EQ(status.code(), NRT_TIMEOUT);
  EXPECT_THAT(failure_of(status), HasSubstr("pid " + std::to_string(child) + " holds its lock"));
  ::kill(child, SIGKILL);
  wait_child(child);
  ::close(ready[0]);
  ::close(ready[1]);
}

// ---- lost locks -------------------------------------------------------------------------------

// fcntl drops all locks of a process when it closes any descriptor of the file, whoever opened it.
TEST(MachineLocks, AProcessThatLostItsLocksKeepsCoresAndMemory) {
  const TestMachine machine;
  const Context context = machine.context();
  const auto file = machine.attach(context);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->claim(0, 8, 1).ok());
  const auto extent = (*file)->allocate(0, kMiB, 4096);
  ASSERT_TRUE((*file)->commit(**extent, (*extent)->offset(), kMiB).ok());
  std::memset((*extent)->data(), 0x5A, kMiB);
  ::close(::open((machine.directory() + "/locks").c_str(), O_RDONLY));
  // Another process neither takes a core nor scrubs the memory.
  EXPECT_EQ(in_child([&] {
              ::execl("/proc/self/exe", "machine_directory_test", "--claim",
                      machine.folder().c_str(), nullptr);
              return 99;
            }),
            NRT_RESOURCE);
  EXPECT_EQ((*extent)->data()[kMiB - 1], std::byte{0x5A});
  // Its own next operation takes the locks again.
  EXPECT_TRUE((*file)->owners().ok());
  EXPECT_EQ(in_child([&] {
              ::execl("/proc/self/exe", "machine_directory_test", "--holders",
                      machine.folder().c_str(), nullptr);
              return 99;
            }),
            9);
}

TEST(MachineLocks, AClosedLockFileIsToldAtOnceAndNobodyElsesFileIsClosed) {
  const TestMachine machine;
  EXPECT_EQ(in_child([&] {
              const Context context = machine.context();
              auto file = machine.attach(context);
              if (!file.ok() || !(*file)->claim(0, 1, 1).ok()) {
                return 1;
              }
              for (int fd = 3; fd < 100; ++fd) {
                ::close(fd);
              }
              std::vector<int> own;
              for (int i = 0; i < 20; ++i) {
                own.push_back(::open("/dev/null", O_RDONLY));
              }
              const auto start = std::chrono::steady_clock::now();
              const Status status = (*file)->claim(1, 1, 1).status();
              const bool prompt =
                  std::chrono::steady_clock::now() - start < std::chrono::seconds(5);
              const bool told =
                  status.code() == NRT_FAILURE &&
                  status.message().find("was closed in this process") != std::string_view::npos;
              (*file).reset();
              for (const int fd : own) {
                if (::fcntl(fd, F_GETFD) < 0) {
                  return 2;
                }
              }
              return prompt && told ? 0 : 3;
            }),
            0);
  const Context context = machine.context();
  const auto next = machine.attach(context);
  ASSERT_TRUE(next.ok()) << failure_of(next.status());
  EXPECT_TRUE((*next)->claim(0, 8, 1).ok());
}

// execve() keeps pid and start time; the membership ends with the old program all the same.
TEST(MachineLocks, AProgramThatExecsStartsAnew) {
  const TestMachine machine;
  EXPECT_EQ(in_child([&] {
              const Context context = machine.context();
              const auto file = machine.attach(context);
              if (!file.ok() || !(*file)->claim(0, 8, 1).ok()) {
                return 98;
              }
              ::execl("/proc/self/exe", "machine_directory_test", "--claim",
                      machine.folder().c_str(), nullptr);
              return 99;
            }),
            0);
}

// ---- instance types ---------------------------------------------------------------------------

TEST(MachineType, AnotherTypeUnderTheSameNameIsRefused) {
  const TestMachine machine;
  const Context context = machine.context();
  ASSERT_TRUE(machine.attach(context).ok());
  const auto other = find_profile(context, "trn1.2xlarge");
  const auto place = machine_place(context, "box");
  const Status status = MachineFile::attach(context, *place, *other, {}).status();
  EXPECT_EQ(status.code(), NRT_FAILURE);
  EXPECT_THAT(failure_of(status), HasSubstr("machine 'box' is a box, wanted trn1.2xlarge"));
}

TEST(MachineType, AChangedDescriptionIsTakenOverWhenNobodyIsThere) {
  const TestMachine machine;
  const Context context = machine.context();
  const auto place = machine_place(context, "box");
  auto profile = find_profile(context, "box");
  {
    const auto file = machine.attach(context);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(in_child([&] { return 0; }), 0);
  }
  profile->info.device_count = 1;
  profile->info.devices.resize(1);
  profile->info.devices[0].connected_devices.clear();
  const auto smaller = MachineFile::attach(context, *place, *profile, {});
  ASSERT_TRUE(smaller.ok()) << smaller.status().message();
  EXPECT_EQ((*smaller)->physical_cores(), 4);
}

// ---- races ------------------------------------------------------------------------------------

TEST(MachineRaces, ManyProcessesMakeTheSameMachine) {
  for (int turn = 0; turn < 3; ++turn) {
    const TestMachine machine;
    const Context context = machine.context();
    std::vector<pid_t> children;
    for (int i = 0; i < 12; ++i) {
      children.push_back(start_child([&] {
        const auto file = machine.attach(context);
        return file.ok() && (*file)->claim(-1, 1, 1).ok() ? 0 : file.ok() ? 0 : 1;
      }));
    }
    for (const pid_t child : children) {
      EXPECT_EQ(wait_child(child), 0);
    }
    EXPECT_THAT(machine.files(), ElementsAre("control", "locks"));
  }
}

TEST(MachineRaces, RemovingWhileOthersJoinNeverBreaksThem) {
  const TestMachine machine;
  const Context context = machine.context();
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(start_child([&] {
      for (int turn = 0; turn < 40; ++turn) {
        const auto file = machine.attach(context);
        if (!file.ok() || !(*file)->claim(-1, 1, 1).ok() ||
            !(*file)->allocate(0, 4096, 4096).ok()) {
          return 1;
        }
      }
      return 0;
    }));
  }
  for (int turn = 0; turn < 60; ++turn) {
    const Status status = remove_machine(context, machine.directory());
    // In use, or already gone: both are right.
    EXPECT_TRUE(status.ok() || status.code() == NRT_RESOURCE || status.code() == NRT_FAILURE);
  }
  for (const pid_t child : children) {
    EXPECT_EQ(wait_child(child), 0);
  }
}

TEST(MachineRaces, ThreadsJoinAndLeaveAtOnce) {
  const TestMachine machine;
  const Context context = machine.context();
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 30; ++turn) {
        const auto file = machine.attach(context);
        if (!file.ok() || !(*file)->owners().ok()) {
          ++failures;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failures, 0);
  // The locks of a later member are not lost with the descriptor of an earlier one.
  const auto file = machine.attach(context);
  ASSERT_TRUE((*file)->claim(0, 1, 1).ok());
  EXPECT_EQ(remove_machine(context, machine.directory()).code(), NRT_SUCCESS);
}

TEST(MachineRaces, AMachineInUseIsNotRemoved) {
  const TestMachine machine;
  const Context context = machine.context();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = start_child([&] {
    const auto file = machine.attach(context);
    static_cast<void>(!::write(ready[1], "y", 1));
    ::pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  for (const Status& status : {remove_machine(context, machine.directory()),
                               reset_machine(context, machine.directory())}) {
    EXPECT_EQ(status.code(), NRT_RESOURCE);
    EXPECT_THAT(failure_of(status), HasSubstr("pid " + std::to_string(child)));
  }
  ::kill(child, SIGKILL);
  wait_child(child);
  EXPECT_TRUE(reset_machine(context, machine.directory()).ok());
  EXPECT_TRUE(read_machine(machine.directory())->processes.empty());
  ::close(ready[0]);
  ::close(ready[1]);
}

// ---- memory -----------------------------------------------------------------------------------

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

// ---- readers ----------------------------------------------------------------------------------

TEST(MachineSnapshotTest, ShowsProcessesCoresAndMemory) {
  const TestMachine machine;
  const Context context = machine.context({"NEURON_PROCESS_TAG=trainer"});
  const auto file = machine.attach(context);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->claim(3, 2, 1).ok());
  const auto extent = (*file)->allocate(1, 8 * kMiB, 4096);
  ASSERT_TRUE((*file)->commit(**extent, (*extent)->offset(), 3 * kMiB).ok());
  (*file)->list_model(5, 3, ProgramImage{.name = "digits"});
  const auto snapshot = read_machine(machine.directory());
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  ASSERT_EQ(snapshot->processes.size(), 1u);
  const ProcessSnapshot& process = snapshot->processes[0];
  EXPECT_EQ(process.pid, ::getpid());
  EXPECT_EQ(process.tag, "trainer");
  EXPECT_EQ(process.runtime_version, "2.35.0");
  EXPECT_THAT(process.command, HasSubstr("machine_directory_test"));
  EXPECT_THAT(process.physical_cores, ElementsAre(3, 4));
  EXPECT_EQ(process.committed_bytes, 4 * kMiB);
  ASSERT_EQ(process.models.size(), 1u);
  EXPECT_EQ(process.models[0].name, "digits");
  EXPECT_EQ(snapshot->cores[3].owner, 0);
  EXPECT_EQ(snapshot->cores[2].owner, -1);
  EXPECT_EQ(snapshot->hbm[1].used, 8 * kMiB);
  (*file)->unlist_model(5);
  EXPECT_THAT(read_machine(machine.directory())->processes[0].models, IsEmpty());
}

TEST(MachineSnapshotTest, BusyTimeIsOneWordThatIsRightWhileAProgramRuns) {
  EXPECT_EQ(busy_sum(100, 5000), 100u);
  const uint64_t open = busy_open(100, 2000);  // 100 ns before, runs since 2000
  EXPECT_TRUE(is_busy(open));
  EXPECT_EQ(busy_sum(open, 2000), 100u);
  EXPECT_EQ(busy_sum(open, 2700), 800u);
  EXPECT_EQ(busy_sum(open, 1), 0u);  // garbage gives no huge number
}

TEST(MachineSnapshotTest, StatisticsOfADeadOwnerAreKeptInTheSumsAlone) {
  const TestMachine machine;
  const Context context = machine.context();
  EXPECT_EQ(in_child([&] {
              const auto file = machine.attach(context);
              if (!file.ok() || !(*file)->claim(2, 1, 1).ok()) {
                return 1;
              }
              (*file)->statistics(2).counter(CoreCounter::kCompleted) = 7;
              (*file)->statistics(2).total_latency.buckets[3] = 7;
              store((*file)->core(2).busy_since_ns, 5000);
              store((*file)->core(2).busy, busy_open(400, 5000));
              return ::kill(::getpid(), SIGKILL);
            }),
            128 + SIGKILL);
  const auto before = read_machine(machine.directory());
  EXPECT_EQ(before->cores[2].busy_ns, 400u);  // it ended at an unknown time
  EXPECT_FALSE(before->cores[2].busy);
  const auto file = machine.attach(context);
  ASSERT_TRUE((*file)->claim(2, 1, 1).ok());
  const auto after = read_machine(machine.directory());
  EXPECT_EQ(after->cores[2].owner, 0);
  EXPECT_EQ(after->cores[2].busy_ns, 400u);
  EXPECT_EQ(after->cores[2].counter(CoreCounter::kCompleted), 0u);
  EXPECT_EQ(after->cores[2].counters_of_all_owners[static_cast<size_t>(CoreCounter::kCompleted)],
            7u);
  EXPECT_EQ(after->cores[2].total_latency.buckets[3], 0u);
}

TEST(MachineSnapshotTest, ManyModelsAreListedAndTheRestIsCounted) {
  const TestMachine machine;
  const Context context = machine.context();
  const auto file = machine.attach(context);
  for (uint64_t id = 1; id <= kMaxModels + 3; ++id) {
    ProgramImage image;
    image.name = "model " + std::to_string(id);
    image.model = static_cast<uint32_t>(1000 + id);
    image.code_bytes = id;
    (*file)->list_model(id, 0, image);
  }
  auto process = read_machine(machine.directory())->processes.at(0);
  ASSERT_EQ(process.models.size(), static_cast<size_t>(kMaxModels));
  EXPECT_EQ(process.models[70].name, "model 71");
  EXPECT_EQ(process.models[70].model, 1071u);
  EXPECT_EQ(process.models[70].code_bytes, 71u);
  EXPECT_EQ(process.models_not_listed, 3u);
  for (uint64_t id = 1; id <= kMaxModels + 3; ++id) {
    (*file)->unlist_model(id);
  }
  (*file)->list_model(99, 1, ProgramImage{.name = "again"});
  process = read_machine(machine.directory())->processes.at(0);
  ASSERT_EQ(process.models.size(), 1u);
  EXPECT_EQ(process.models_not_listed, 0u);
}

TEST(MachineSnapshotTest, DeadProcessesAreNotShown) {
  const TestMachine machine;
  const Context context = machine.context();
  EXPECT_EQ(in_child([&] {
              const auto file = machine.attach(context);
              const bool good = file.ok() && (*file)->claim(0, 8, 1).ok() &&
                                (*file)->allocate(0, kMiB, 4096).ok();
              return good ? ::kill(::getpid(), SIGKILL) : 1;
            }),
            128 + SIGKILL);
  const auto snapshot = read_machine(machine.directory());
  ASSERT_TRUE(snapshot.ok());
  EXPECT_THAT(snapshot->processes, IsEmpty());
  EXPECT_EQ(snapshot->cores[0].owner, -1);
  EXPECT_EQ(snapshot->hbm[0].used, 0u);
}

TEST(MachineSnapshotTest, AReaderMakesNothing) {
  const TestMachine machine;
  const Context context = machine.context();
  const auto snapshot = read_selected_machine(context);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_EQ(snapshot->cores.size(), 8u);
  EXPECT_EQ(snapshot->hbm[3].largest, snapshot->hbm[3].limit);
  EXPECT_FALSE(std::filesystem::exists(machine.folder() + "/machines"));
  EXPECT_THAT(list_machines(context), IsEmpty());
}

TEST(MachineSnapshotTest, WithoutAVariableTheOnlyMachineIsShown) {
  const TestMachine machine;
  const Context maker = machine.context();
  Context reader;
  reader.settings =
      Settings::from_strings({"OPENNRT_MACHINE_DIR=" + machine.folder() + "/machines"});
  reader.log = std::make_unique<Logger>(reader.settings);
  EXPECT_THAT(failure_of(read_selected_machine(reader).status()), HasSubstr("no Neuron device"));
  ASSERT_TRUE(machine.attach(maker).ok());
  EXPECT_EQ(read_selected_machine(reader)->info.name, "box");
  ASSERT_TRUE(create_machine(machine.context({"OPENNRT_MACHINE=second"})).ok());
  EXPECT_THAT(failure_of(read_selected_machine(reader).status()),
              AllOf(HasSubstr("box, second"), HasSubstr("OPENNRT_MACHINE")));
}

TEST(MachineSnapshotTest, CanBeReadWhileProcessesComeAndGo) {
  const TestMachine machine;
  const Context context = machine.context();
  ASSERT_TRUE(create_machine(context).ok());
  const pid_t child = start_child([&] {
    for (int turn = 0; turn < 60; ++turn) {
      const auto file = machine.attach(context);
      if (!file.ok() || !(*file)->claim(-1, 2, 1).ok()) {
        return 1;
      }
    }
    return 0;
  });
  for (int turn = 0; turn < 100; ++turn) {
    const auto snapshot = read_machine(machine.directory());
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
    ASSERT_LE(snapshot->processes.size(), 1u);
    for (const ProcessSnapshot& process : snapshot->processes) {
      EXPECT_EQ(process.pid, child);
      EXPECT_THAT(process.command, HasSubstr("machine_directory_test"));
    }
  }
  EXPECT_EQ(wait_child(child), 0);
}

// Another program for the tests above: they exec this one with a command and a test's folder.
int run_command(const std::string& command, const std::string& folder) {
  Context context;
  context.settings =
      Settings::from_strings({"OPENNRT_EMULATE=box", "OPENNRT_MACHINE_FILE=" + folder + "/box.json",
                              "OPENNRT_MACHINE_DIR=" + folder + "/machines"});
  context.log = std::make_unique<Logger>(context.settings);
  const auto place = machine_place(context, "box");
  if (command == "--holders") {  // how many of 8 cores and the first slot are locked
    const RecordLocks locks(UniqueFd(::open((place->directory + "/locks").c_str(), O_RDONLY)));
    int held = locks.holder(kSlotLockBytes, 1) ? 1 : 0;
    for (int core = 0; core < 8; ++core) {
      held += locks.holder(kCoreLockBytes + core, 1) ? 1 : 0;
    }
    return held;
  }
  const auto profile = find_profile(context, "box");
  const auto file = MachineFile::attach(context, *place, *profile, {});
  return file.ok() ? (*file)->claim(0, 8, 1).status().code() : file.status().code() + 50;
}

}  // namespace
}  // namespace onrt::emu

int main(int argc, char** argv) {
  if (argc == 3 && argv[1][0] == '-' && argv[2][0] == '/') {
    return onrt::emu::run_command(argv[1], argv[2]);
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
