// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/driver/registry.h"

namespace onrt {
namespace {

using ::testing::HasSubstr;

Context context_of(const std::vector<std::string>& variables) {
  Context context;
  context.settings = Settings::from_strings(variables);
  context.log = std::make_unique<Logger>(context.settings);
  return context;
}

TEST(Machine, DefaultMethodsNameThemselves) {
  const Context context = context_of({"OPENNRT_BACKEND=null"});
  auto choice = choose_driver(context);
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  auto machine = choice->driver->open(context, {});
  ASSERT_TRUE(machine.ok());
  const Status status = (*machine)->claim_cores({}).status();
  EXPECT_EQ(status.code(), NRT_FAILURE);
  EXPECT_THAT(std::string(status.message()), HasSubstr("unsupported: claim_cores"));
  EXPECT_EQ((*machine)->info().device_count, 0);
}

TEST(Registry, AutoNeverPicksTheNullBackend) {
  const Context context = context_of({});
  const auto choice = choose_driver(context);
  ASSERT_FALSE(choice.ok());
  EXPECT_THAT(std::string(choice.status().message()), HasSubstr("null: only used when"));
}

TEST(Registry, UnknownBackendIsRefusedWithTheKnownNames) {
  const Context context = context_of({"OPENNRT_BACKEND=cuda"});
  const auto choice = choose_driver(context);
  ASSERT_FALSE(choice.ok());
  EXPECT_THAT(std::string(choice.status().message()), HasSubstr("'cuda': expected auto or one of"));
}

TEST(Registry, BadFaultPlanIsRefused) {
  const Context context = context_of({"OPENNRT_BACKEND=null", "OPENNRT_FAULTS=dma@x=1203"});
  const auto choice = choose_driver(context);
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.status().code(), NRT_INVALID);
  EXPECT_THAT(std::string(choice.status().message()), HasSubstr("dma@x=1203"));
}

TEST(MemoryCategory, EveryCategoryHasAName) {
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    EXPECT_NE(memory_category_name(static_cast<MemoryCategory>(i)), "unknown");
  }
  EXPECT_EQ(memory_category_name(static_cast<MemoryCategory>(200)), "unknown");
}

}  // namespace
}  // namespace onrt
