// SPDX-License-Identifier: Apache-2.0
// Ownership of cores, within a process and between processes.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "tests/conformance/driver/fixture.h"

namespace onrt::conformance {
namespace {

using ::testing::HasSubstr;

class DriverCores : public DriverTest {};

TEST_P(DriverCores, FirstFitTakesConsecutiveCores) {
  if (!can(Capability::kCores)) {
    return;
  }
  const auto machine = open();
  const auto first = machine->claim_cores({-1, 2});
  const auto second = machine->claim_cores({-1, 3});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->start, 0);
  EXPECT_EQ(second->start, 2);
  ASSERT_TRUE(machine->release_cores(*first).ok());
  // Cores 0, 1 and 5 to 7 are free: three in a row start at 5.
  const auto third = machine->claim_cores({-1, 3});
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(third->start, 5);
}

TEST_P(DriverCores, BusyCoreNamesItsOwner) {
  if (!can(Capability::kCores)) {
    return;
  }
  const auto machine = open();
  ASSERT_TRUE(machine->claim_cores({1, 1}).ok());
  const auto again = machine->claim_cores({1, 1});
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.status().code(), NRT_RESOURCE);
  const std::string text(again.status().message());
  EXPECT_THAT(text, HasSubstr("NeuronCore(s) not available - Requested:nc1-nc1 Available:0"));
  EXPECT_THAT(text, HasSubstr("held by pid " + std::to_string(::getpid())));
  EXPECT_THAT(text, HasSubstr("driver_conformance"));
}

TEST_P(DriverCores, OutOfRangeRequestsAreInvalid) {
  if (!can(Capability::kCores)) {
    return;
  }
  const auto machine = open();
  for (const CoreRequest& request : {CoreRequest{0, 0}, CoreRequest{0, -1}, CoreRequest{8, 1},
                                     CoreRequest{7, 2}, CoreRequest{-1, 9}, CoreRequest{-2, 1},
                                     CoreRequest{0x7fffffff, 1}, CoreRequest{0, 0x7fffffff}}) {
    const auto claimed = machine->claim_cores(request);
    ASSERT_FALSE(claimed.ok());
    EXPECT_EQ(claimed.status().code(), NRT_INVALID);
  }
  EXPECT_FALSE(machine->release_cores({0, 1}).ok());
  EXPECT_TRUE(machine->core_owners()->empty());
}

TEST_P(DriverCores, LogicalCoresOfTwoPhysicalOnes) {
  if (!can(Capability::kCores)) {
    return;
  }
  MachineRequest request;
  request.logical_core_size = 2;
  const auto machine = open(request);
  EXPECT_EQ(machine->info().logical_cores(), 4);
  ASSERT_TRUE(machine->claim_cores({3, 1}).ok());
  EXPECT_EQ(machine->hbm_of_core(3).value(), (HbmId{1, 1}));
  EXPECT_EQ(machine->hbm_of_core(0).value(), (HbmId{0, 0}));
  const auto owners = machine->core_owners();
  ASSERT_EQ(owners->size(), 1u);
  EXPECT_EQ(owners->front().core, 3);
  request.logical_core_size = 3;
  EXPECT_EQ(driver_->open(context_, request).status().code(), NRT_INVALID);
}

TEST_P(DriverCores, TwoProcessesHoldDifferentCoresAtOnce) {
  if (!can(Capability::kProcesses)) {
    return;
  }
  int ready[2];
  int go[2];
  ASSERT_EQ(::pipe(ready) | ::pipe(go), 0);
  const auto hold = [&](int core) {
    const auto machine = driver_->open(context_, {});
    const bool good = machine.ok() && (*machine)->claim_cores({core, 1}).ok();
    char byte = good ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) != 1 || ::read(go[0], &byte, 1) != 1) {
      return 2;
    }
    return good ? 0 : 1;
  };
  const pid_t a = start_child([&] { return hold(0); });
  const pid_t b = start_child([&] { return hold(1); });
  char bytes[2] = {};
  ASSERT_EQ(::read(ready[0], bytes, 1), 1);
  ASSERT_EQ(::read(ready[0], bytes + 1, 1), 1);
  EXPECT_EQ(std::string(bytes, 2), "yy");
  {
    const auto machine = open();
    const auto owners = machine->core_owners();
    ASSERT_EQ(owners->size(), 2u);
    EXPECT_THAT((std::vector<int>{owners->at(0).pid, owners->at(1).pid}),
                ::testing::UnorderedElementsAre(a, b));
  }
  ASSERT_EQ(::write(go[1], "gg", 2), 2);
  EXPECT_EQ(wait_child(a), 0);
  EXPECT_EQ(wait_child(b), 0);
  EXPECT_TRUE(open()->core_owners()->empty());
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) {
    ::close(fd);
  }
}

TEST_P(DriverCores, CoresOfAKilledProcessCanBeClaimed) {
  if (!can(Capability::kProcesses)) {
    return;
  }
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = start_child([&] {
    const auto machine = driver_->open(context_, {});
    const bool good = machine.ok() && (*machine)->claim_cores({0, 8}).ok() &&
                      (*machine)->allocate_extent({0, 0}, 64 << 20, 4096).ok();
    const char byte = good ? 'y' : 'n';
    static_cast<void>(!::write(ready[1], &byte, 1));
    ::pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  const auto machine = open();
  EXPECT_EQ(machine->claim_cores({0, 1}).status().code(), NRT_RESOURCE);
  ::kill(child, SIGKILL);
  // Not reaped before the claim: a zombie owns nothing.
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(machine->claim_cores({0, 8}).ok());
  EXPECT_EQ(machine->hbm_usage({0, 0})->used, 0u);
  wait_child(child);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_P(DriverCores, ManyProcessesNeverShareACore) {
  if (!can(Capability::kProcesses)) {
    return;
  }
  // Every child claims and releases 40 times; a core that two hold at once would show in the byte
  // that only its holder may change.
  const auto shared = static_cast<std::atomic<int>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    children.push_back(start_child([&] {
      const auto machine = driver_->open(context_, {});
      if (!machine.ok()) {
        return 3;
      }
      for (int turn = 0; turn < 40; ++turn) {
        const auto claimed = (*machine)->claim_cores({-1, 1 + turn % 3});
        if (!claimed.ok()) {
          continue;
        }
        for (int core = claimed->start; core < claimed->start + claimed->count; ++core) {
          if (shared[core].fetch_add(1) != 0) {
            return 1;
          }
        }
        for (int core = claimed->start; core < claimed->start + claimed->count; ++core) {
          shared[core].fetch_sub(1);
        }
        if (!(*machine)->release_cores(*claimed).ok()) {
          return 2;
        }
      }
      return 0;
    }));
  }
  for (const pid_t child : children) {
    EXPECT_EQ(wait_child(child), 0);
  }
  ::munmap(shared, 4096);
  EXPECT_TRUE(open()->core_owners()->empty());
}

TEST_P(DriverCores, ForkedChildCanUseNothingAndTakesNothingAway) {
  if (!can(Capability::kProcesses)) {
    return;
  }
  auto machine = open();
  const auto range = machine->claim_cores({2, 1});
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(in_child([&] {
              const Status status = machine->claim_cores({3, 1}).status();
              if (status.code() != NRT_FAILURE ||
                  status.message().find("CHILD") == std::string_view::npos) {
                return 1;
              }
              if (machine->semaphore_read(2, 0).ok() || machine->core_owners().ok() ||
                  driver_->open(context_, {}).ok()) {
                return 2;
              }
              machine.reset();  // Must not release what the parent holds.
              return 0;
            }),
            0);
  const auto owners = machine->core_owners();
  ASSERT_EQ(owners->size(), 1u);
  EXPECT_EQ(owners->front().pid, ::getpid());
  // Another process still finds the core busy: the child's exit has dropped no lock.
  EXPECT_TRUE(machine->release_cores(*range).ok());
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverCores, ::testing::ValuesIn(backends()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace onrt::conformance
