// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/fault_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace onrt {
namespace {

using ::testing::HasSubstr;

// Accepts everything and counts what reaches it.
class CountingMachine : public Machine {
 public:
  const MachineInfo& info() const override { return info_; }
  Status dma_submit(const DmaQueueId&, std::span<const DmaDescriptor>) override {
    ++submits;
    return ok_status();
  }
  Status dma_wait(const DmaQueueId&, std::chrono::steady_clock::time_point) override {
    return ok_status();
  }
  Status program_start(int, ProgramId, const ProgramStart&) override {
    ++starts;
    return ok_status();
  }
  Result<bool> poll_notification(int, NotificationType, Notification*) override { return false; }
  Status wait_notification(int, NotificationType, std::chrono::steady_clock::time_point,
                           Notification*) override {
    return Status(NRT_TIMEOUT, "no notification");
  }

  int submits = 0;
  int starts = 0;

 private:
  MachineInfo info_;
};

struct Fixture {
  explicit Fixture(std::string_view faults) {
    auto counting = std::make_unique<CountingMachine>();
    inner = counting.get();
    machine = make_fault_machine(std::move(counting), FaultPlan::parse(faults).value());
  }
  CountingMachine* inner;  // Borrowed from machine.
  std::unique_ptr<Machine> machine;
};

TEST(FaultDriver, NthDmaFailsAtTheWaitAndCopiesNothing) {
  Fixture fixture("dma@2=1203");
  const DmaQueueId queue;
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(fixture.machine->dma_submit(queue, {}).ok());
    const Status status = fixture.machine->dma_wait(queue, {});
    EXPECT_EQ(status.code(), i == 2 ? NRT_EXEC_HW_ERR_DMA_ABORT : NRT_SUCCESS);
  }
  EXPECT_EQ(fixture.inner->submits, 2);
}

TEST(FaultDriver, FailedProgramNotifiesWithTheStatus) {
  Fixture fixture("program@1=1201");
  ProgramStart start;
  start.sequence = 42;
  ASSERT_TRUE(fixture.machine->program_start(3, 9, start).ok());
  Notification notification;
  ASSERT_TRUE(
      fixture.machine->wait_notification(3, NotificationType::kNotify, {}, &notification).ok());
  EXPECT_EQ(notification.status, NRT_EXEC_HW_ERR_HBM_UE);
  EXPECT_EQ(notification.program, 9u);
  EXPECT_EQ(notification.sequence, 42u);
  EXPECT_EQ(fixture.inner->starts, 0);
}

TEST(FaultDriver, EndlessProgramTimesOut) {
  Fixture fixture("program@1=endless");
  ASSERT_TRUE(fixture.machine->program_start(0, 1, {}).ok());
  Notification notification;
  EXPECT_EQ(
      fixture.machine->wait_notification(0, NotificationType::kNotify, {}, &notification).code(),
      NRT_TIMEOUT);
  EXPECT_EQ(fixture.inner->starts, 0);
}

TEST(FaultDriver, OtherOperationsReturnTheStatusAndNameTheRule) {
  Fixture fixture("allocate@1=4");
  const auto extent = fixture.machine->allocate_extent({}, 4096, 4096);
  ASSERT_FALSE(extent.ok());
  EXPECT_EQ(extent.status().code(), NRT_RESOURCE);
  EXPECT_THAT(std::string(extent.status().message()), HasSubstr("injected fault: allocate@1=4"));
}

}  // namespace
}  // namespace onrt
