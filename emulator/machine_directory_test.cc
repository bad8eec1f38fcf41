// SPDX-License-Identifier: Apache-2.0
// The machine directory: damage, lost locks, races of making and removing.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
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
using testing::failure_of;
using ::testing::HasSubstr;
using testing::in_child;
using testing::start_child;
using testing::TestMachine;
using testing::wait_child;

constexpr uint64_t kMiB = 1 << 20;

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
