// SPDX-License-Identifier: Apache-2.0
// Readers of a machine that others use.
#include "emulator/machine_snapshot.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "emulator/machine_admin.h"
#include "emulator/machine_control.h"
#include "emulator/testing.h"

namespace onrt::emu {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::failure_of;
using ::testing::HasSubstr;
using testing::in_child;
using ::testing::IsEmpty;
using testing::start_child;
using testing::TestMachine;
using testing::wait_child;

constexpr uint64_t kMiB = 1 << 20;

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

// Found by tools_fuzz: with such numbers in the file neuron-top's totals wrapped to small ones.
TEST(MachineSnapshotTest, AmountsThatNoMachineHasAreBounded) {
  const TestMachine machine;
  const Context context = machine.context();
  const auto file = machine.attach(context);
  ASSERT_TRUE(file.ok() && (*file)->claim(0, 2, 1).ok());
  const UniqueFd control(::open((machine.directory() + "/control").c_str(), O_RDWR));
  const auto forge = [&](size_t offset, size_t bytes) {
    const std::string ones(bytes, '\xff');
    ASSERT_EQ(::pwrite(control.get(), ones.data(), bytes, static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes));
  };
  for (size_t core = 0; core < 2; ++core) {
    const size_t record = offsetof(ControlFile, cores) + core * sizeof(CoreRecord);
    forge(record + offsetof(CoreRecord, bytes), sizeof(CoreRecord::bytes));
    forge(record + offsetof(CoreRecord, peak), sizeof(CoreRecord::peak));
  }
  forge(offsetof(ControlFile, statistics), sizeof(CoreStatisticsRecord));
  forge(offsetof(ControlFile, counters), sizeof(DeviceCounterRecord));
  const auto snapshot = read_machine(machine.directory());
  ASSERT_TRUE(snapshot.ok()) << failure_of(snapshot.status());
  for (size_t core = 0; core < 2; ++core) {
    for (size_t i = 0; i < kMemoryCategories; ++i) {
      EXPECT_EQ(snapshot->cores[core].bytes[i], kMostBytes);
      EXPECT_EQ(snapshot->cores[core].peak[i], kMostBytes);
    }
  }
  EXPECT_EQ(snapshot->cores[0].counter(CoreCounter::kCompleted), kMostCount);
  EXPECT_EQ(snapshot->cores[0].counter(CoreCounter::kMultiplyAccumulates), kMostOperations);
  EXPECT_EQ(snapshot->devices[0].dma_bytes, kMostCount);
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

}  // namespace
}  // namespace onrt::emu
