// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/visible_cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace onrt {
namespace {

using ::testing::HasSubstr;

Settings with(const std::string& variable) { return Settings::from_strings({variable}); }

// The grammar of the vendor's configuration guide; what it does not name is refused.
TEST(VisibleCores, TakesACoreARangeOrAListWithoutGaps) {
  struct Case {
    const char* text;
    int start;
    int count;
  };
  for (const Case& item : {Case{"0", 0, 1}, Case{"4", 4, 1}, Case{"0-3", 0, 4}, Case{"2-2", 2, 1},
                           Case{"0,1,2", 0, 3}, Case{"5,6", 5, 2}, Case{"0-127", 0, 128}}) {
    const auto range = parse_visible_cores(item.text);
    ASSERT_TRUE(range.ok()) << item.text << range.status().message();
    EXPECT_EQ(range->start, item.start) << item.text;
    EXPECT_EQ(range->count, item.count) << item.text;
  }
}

TEST(VisibleCores, RefusesEverythingElse) {
  for (const char* text :
       {"2-1", "0-",  "-1",  "-",           "x",          "0,0",  "0,2",         "1,0",
        "0 1", " 0",  "0 ",  "0,",          ",0",         "0,,1", "0-1,2",       "0-1-2",
        "+1",  "0x1", "1.0", "99999999999", "2147483648", "--1",  "0-1000000000"}) {
    EXPECT_EQ(parse_visible_cores(text).status().code(), NRT_INVALID) << text;
  }
}

TEST(VisibleCores, ARefusalNamesVariableAndValue) {
  for (const char* text : {"2-1", "0-", "x", "99", "-1", "3-4", "0,0"}) {
    const auto request = requested_cores(with(std::string("NEURON_RT_VISIBLE_CORES=") + text), 4);
    ASSERT_FALSE(request.ok()) << text;
    EXPECT_EQ(request.status().code(), NRT_INVALID);
    EXPECT_THAT(std::string(request.status().message()),
                HasSubstr(std::string("NEURON_RT_VISIBLE_CORES='") + text + "'"));
  }
  EXPECT_THAT(std::string(requested_cores(with("NEURON_RT_NUM_CORES=5"), 4).status().message()),
              HasSubstr("NEURON_RT_NUM_CORES='5': this machine has 4 cores"));
  EXPECT_FALSE(requested_cores(with("NEURON_RT_NUM_CORES=-1"), 4).ok());
  EXPECT_FALSE(requested_cores(with("NEURON_RT_NUM_CORES=two"), 4).ok());
}

TEST(VisibleCores, EmptyCountsAsNotSetAndMeansAll) {
  for (const char* variable :
       {"X=1", "NEURON_RT_VISIBLE_CORES=", "NEURON_RT_NUM_CORES=", "NEURON_RT_NUM_CORES=0"}) {
    const auto request = requested_cores(with(variable), 4);
    ASSERT_TRUE(request.ok());
    EXPECT_EQ(request->start, 0);
    EXPECT_EQ(request->count, 4);
  }
}

TEST(VisibleCores, WinOverNumCores) {
  const Settings both =
      Settings::from_strings({"NEURON_RT_NUM_CORES=3", "NEURON_RT_VISIBLE_CORES=2"});
  const auto request = requested_cores(both, 4);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->start, 2);
  EXPECT_EQ(request->count, 1);
  EXPECT_EQ(core_request_source(both), "NEURON_RT_VISIBLE_CORES");
  const auto any = requested_cores(with("NEURON_RT_NUM_CORES=3"), 4);
  ASSERT_TRUE(any.ok());
  EXPECT_EQ(any->start, -1);
  EXPECT_EQ(any->count, 3);
}

TEST(LogicalCoreSize, IsOneOrTwoUnderEitherName) {
  EXPECT_EQ(*requested_logical_core_size(with("X=1")), 0);
  EXPECT_EQ(*requested_logical_core_size(with("NEURON_LOGICAL_NC_CONFIG=1")), 1);
  EXPECT_EQ(*requested_logical_core_size(with("NEURON_RT_VIRTUAL_CORE_SIZE=2")), 2);
  for (const char* variable : {"NEURON_LOGICAL_NC_CONFIG=3", "NEURON_LOGICAL_NC_CONFIG=0",
                               "NEURON_LOGICAL_NC_CONFIG=x", "NEURON_RT_VIRTUAL_CORE_SIZE=11"}) {
    EXPECT_EQ(requested_logical_core_size(with(variable)).status().code(), NRT_INVALID) << variable;
  }
}

}  // namespace
}  // namespace onrt
