// SPDX-License-Identifier: Apache-2.0
// Processes that are killed inside journaled code, or at any time: the next one finds a clean
// machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "emulator/machine_snapshot.h"
#include "emulator/testing.h"

namespace onrt::emu {
namespace {

using ::testing::ElementsAre;
using testing::in_child;
using testing::start_child;
using testing::TestMachine;
using testing::wait_child;

constexpr uint64_t kMiB = 1 << 20;

// Everything that changes the machine. 0 when all of it worked.
int use_machine(const TestMachine& machine, const Context& context) {
  auto attached = machine.attach(context);
  if (!attached.ok()) {
    return 1;
  }
  MachineFile& file = **attached;
  const auto cores = file.claim(-1, 3, 1);
  const auto more = file.claim(-1, 1, 1);
  auto first = file.allocate(0, 5 * kMiB, 4096);
  auto second = file.allocate(3, 64 * kMiB, kMiB);
  if (!cores.ok() || !more.ok() || !first.ok() || !second.ok()) {
    return 2;
  }
  if (!file.commit(**first, (*first)->offset() + kMiB, 3 * kMiB).ok() ||
      !file.commit(**second, (*second)->offset(), 1).ok()) {
    return 3;
  }
  std::memset((*first)->data() + kMiB, 0x5A, 3 * kMiB);
  file.list_model(7, *more, ProgramImage{.name = "a model"});
  if (!file.release(*more, 1).ok() || !file.free(*first).ok()) {
    return 4;
  }
  return 0;  // The rest is given back by leaving.
}

// 0 when the machine has no owner, no byte, no file of somebody else, and all of it can be had.
int find_clean(const TestMachine& machine, const Context& context) {
  auto attached = machine.attach(context);
  if (!attached.ok()) {
    return 10;
  }
  MachineFile& file = **attached;
  const auto owners = file.owners();
  if (!owners.ok() || !owners->empty()) {
    return 11;
  }
  if (machine.files() != std::vector<std::string>{"control", "locks"}) {
    return 12;
  }
  if (!file.claim(0, file.physical_cores(), 1).ok()) {
    return 13;
  }
  for (int stack = 0; stack < 4; ++stack) {
    const auto usage = file.usage(stack);
    if (!usage.ok() || usage->used != 0 || usage->largest != usage->limit) {
      return 14;
    }
    const auto all = file.allocate(stack, usage->limit, 4096);
    if (!all.ok()) {
      return 15;
    }
    if (stack != 0) {
      continue;  // use_machine() has written to stack 0 only.
    }
    if (!file.commit(**all, (*all)->offset(), 8 * kMiB).ok()) {
      return 15;
    }
    for (uint64_t i = 0; i < 8 * kMiB; i += 4096) {
      if ((*all)->data()[i] != std::byte{0}) {
        return 16;
      }
    }
  }
  return 0;
}

class CrashPointTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(CrashPointTest, NextProcessFindsACleanMachine) {
  const TestMachine machine;
  const Context plain = machine.context();
  const std::string name(GetParam());
  bool killed = false;
  for (int pass = 1; pass <= 2; ++pass) {
    if (!name.starts_with("create")) {
      // Somebody who died with cores and memory, for the points inside reclaiming.
      EXPECT_EQ(in_child([&] {
                  auto file = machine.attach(plain);
                  const bool good = file.ok() && (*file)->claim(5, 2, 1).ok() &&
                                    (*file)->allocate(1, kMiB, 4096).ok();
                  return good ? ::kill(::getpid(), SIGKILL) : 1;
                }),
                128 + SIGKILL);
    }
    const Context armed =
        machine.context({"OPENNRT_CRASH_POINT=" + name + "@" + std::to_string(pass)});
    const int status = in_child([&] { return use_machine(machine, armed); });
    EXPECT_TRUE(status == 128 + SIGKILL || status == 0) << status;
    killed = killed || status == 128 + SIGKILL;
    EXPECT_EQ(in_child([&] { return find_clean(machine, plain); }), 0) << "pass " << pass;
    EXPECT_THAT(machine.files(), ElementsAre("control", "locks"));
  }
  EXPECT_TRUE(killed) << "the scenario does not reach the point";
}

INSTANTIATE_TEST_SUITE_P(All, CrashPointTest, ::testing::ValuesIn(crash_point_names()),
                         [](const auto& row) { return std::string(row.param); });

TEST(CrashPlan, UnknownPointsAndCountsAreRefused) {
  for (const char* text : {"nowhere@1", "claim_done@0", "claim_done@x", "claim_done@"}) {
    CrashPlan plan;
    EXPECT_EQ(plan.set(text).code(), NRT_INVALID) << text;
  }
}

// OPENNRT_TEST_KILLS: how often (the slow run of this test has 1,000).
TEST(MachineKills, LeaveNothingBehind) {
  const char* setting = std::getenv("OPENNRT_TEST_KILLS");
  const int kills = setting == nullptr ? 50 : std::atoi(setting);
  const TestMachine machine;
  const Context context = machine.context();
  std::mt19937 random(20240607);  // Fixed seed; the schedule varies by itself.
  for (int i = 0; i < kills; ++i) {
    const pid_t child = start_child([&] {
      int status = 0;
      while (status == 0) {
        status = use_machine(machine, context);
      }
      return status;
    });
    ::usleep(random() % 6000);
    ::kill(child, SIGKILL);
    ASSERT_EQ(wait_child(child), 128 + SIGKILL);
    if (i % 10 == 0) {
      ASSERT_EQ(in_child([&] { return find_clean(machine, context); }), 0) << "kill " << i;
    }
  }
  EXPECT_EQ(in_child([&] { return find_clean(machine, context); }), 0);
  EXPECT_THAT(machine.files(), ElementsAre("control", "locks"));
  const auto snapshot = read_machine(machine.directory());
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_TRUE(snapshot->processes.empty());
  EXPECT_EQ(snapshot->committed_bytes, 0u);
}

}  // namespace
}  // namespace onrt::emu
