// SPDX-License-Identifier: Apache-2.0
// Semaphores, events and notification queues.
#include "tests/conformance/driver/fixture.h"

namespace onrt::conformance {
namespace {

using ::testing::HasSubstr;

class DriverSync : public DriverTest {};

TEST_P(DriverSync, SemaphoresCountAndWrap) {
  if (!can(Capability::kSync)) {
    return;
  }
  const auto machine = open();
  ASSERT_TRUE(machine->claim_cores({5, 1}).ok());
  EXPECT_EQ(machine->semaphore_read(5, 255).value(), 0u);
  EXPECT_TRUE(machine->semaphore_write(5, 255, 7).ok());
  EXPECT_TRUE(machine->semaphore_add(5, 255, -8).ok());
  EXPECT_EQ(machine->semaphore_read(5, 255).value(), 0xffffffffu);
  EXPECT_TRUE(machine->semaphore_add(5, 255, 3).ok());
  EXPECT_EQ(machine->semaphore_read(5, 255).value(), 2u);
  EXPECT_EQ(machine->semaphore_read(5, 254).value(), 0u);
}

TEST_P(DriverSync, IndicesAndOwnershipAreChecked) {
  if (!can(Capability::kSync)) {
    return;
  }
  const auto machine = open();
  ASSERT_TRUE(machine->claim_cores({0, 1}).ok());
  EXPECT_EQ(machine->semaphore_read(0, 256).status().code(), NRT_INVALID);
  EXPECT_EQ(machine->semaphore_read(0, -1).status().code(), NRT_INVALID);
  EXPECT_EQ(machine->semaphore_write(1, 0, 1).code(), NRT_INVALID);
  EXPECT_EQ(machine->semaphore_add(8, 0, 1).code(), NRT_INVALID);
  EXPECT_EQ(machine->event_read(0, 256).status().code(), NRT_INVALID);
  EXPECT_EQ(machine->event_write(-1, 0, true).code(), NRT_INVALID);
}

TEST_P(DriverSync, ResetAndANewClaimClearEverything) {
  if (!can(Capability::kSync)) {
    return;
  }
  const auto machine = open();
  const auto range = machine->claim_cores({0, 1});
  ASSERT_TRUE(machine->semaphore_write(0, 3, 9).ok());
  ASSERT_TRUE(machine->event_write(0, 4, true).ok());
  EXPECT_TRUE(machine->event_read(0, 4).value());
  ASSERT_TRUE(machine->reset_core(0).ok());
  EXPECT_EQ(machine->semaphore_read(0, 3).value(), 0u);
  EXPECT_FALSE(machine->event_read(0, 4).value());
  ASSERT_TRUE(machine->semaphore_write(0, 3, 9).ok());
  ASSERT_TRUE(machine->release_cores(*range).ok());
  ASSERT_TRUE(machine->claim_cores({0, 1}).ok());
  EXPECT_EQ(machine->semaphore_read(0, 3).value(), 0u);
}

TEST_P(DriverSync, NotificationQueueNeedsAPowerOfTwo) {
  if (!can(Capability::kNotify)) {
    return;
  }
  const auto machine = open();
  ASSERT_TRUE(machine->claim_cores({0, 1}).ok());
  for (const int capacity : {0, -1, 3, 100}) {
    const Status status =
        machine->create_notification_queue(0, NotificationType::kNotify, capacity);
    EXPECT_EQ(status.code(), NRT_INVALID);
    EXPECT_THAT(std::string(status.message()), HasSubstr("power of two"));
  }
  Notification notification;
  EXPECT_EQ(machine->poll_notification(0, NotificationType::kNotify, &notification).status().code(),
            NRT_INVALID);
  ASSERT_TRUE(machine->create_notification_queue(0, NotificationType::kNotify, 16).ok());
  EXPECT_FALSE(machine->poll_notification(0, NotificationType::kNotify, &notification).value());
  EXPECT_EQ(machine
                ->wait_notification(0, NotificationType::kNotify,
                                    std::chrono::steady_clock::now() + std::chrono::milliseconds(1),
                                    &notification)
                .code(),
            NRT_TIMEOUT);
}

TEST_P(DriverSync, LookingDoesNotJoin) {
  if (!can(Capability::kCores)) {
    return;
  }
  MachineRequest look;
  look.attach = false;
  // Nothing is made by looking.
  EXPECT_EQ(open(look)->info().logical_cores(), 8);
  const auto machine = open();
  ASSERT_TRUE(machine->claim_cores({2, 2}).ok());
  const auto observer = open(look);
  EXPECT_EQ(observer->core_owners()->size(), 2u);
  EXPECT_EQ(observer->claim_cores({0, 1}).status().code(), NRT_FAILURE);
  EXPECT_EQ(observer->hbm_usage({0, 0})->used, 0u);
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverSync, ::testing::ValuesIn(backends()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace onrt::conformance
