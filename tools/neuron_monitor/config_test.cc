// SPDX-License-Identifier: Apache-2.0
// Expected behaviour: SDK documentation, neuron-monitor user guide, "JSON objects and fields in the
// configuration file".
#include "tools/neuron_monitor/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace onrt::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

std::string error_of(std::string_view text) {
  const auto config = parse_config(text);
  return config.ok() ? "" : std::string(config.status().message());
}

TEST(MonitorConfigFile, ADefaultHasEveryGroupEach5Seconds) {
  const MonitorConfig config = default_config();
  ASSERT_EQ(config.runtimes.size(), 1u);
  EXPECT_EQ(config.runtimes[0].groups.size(), 4u);
  EXPECT_EQ(config.system.size(), 3u);
  EXPECT_EQ(config.system[0].period, seconds(5));
  EXPECT_TRUE(std::regex_search("anything", config.runtimes[0].tag_filter));
}

TEST(MonitorConfigFile, PeriodsAreInheritedFromRootOverRuntimeToGroup) {
  const auto config = parse_config(R"({"period": "1s",
    "neuron_runtimes": [{"tag_filter": "^a", "period": "3s",
                         "metrics": [{"type": "memory_used"},
                                     {"type": "execution_stats", "period": "250ms"}]},
                        {"metrics": [{"type": "memory_used"}]}],
    "system_metrics": [{"type": "vcpu_usage"}, {"period": "2s", "type": "neuron_hw_counters"}]})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->runtimes[0].groups[0].period, seconds(3));
  EXPECT_EQ(config->runtimes[0].groups[1].period, milliseconds(250));
  EXPECT_EQ(config->runtimes[1].groups[0].period, seconds(1));
  EXPECT_EQ(config->system[0].period, seconds(1));
  EXPECT_EQ(config->system[1].period, seconds(2));
  EXPECT_TRUE(std::regex_search("abc", config->runtimes[0].tag_filter));
  EXPECT_FALSE(std::regex_search("bca", config->runtimes[0].tag_filter));
}

TEST(MonitorConfigFile, TimesAreNumbersWithUnits) {
  EXPECT_EQ(*parse_period("1m30s", "p"), seconds(90));
  EXPECT_EQ(*parse_period("0.5s", "p"), milliseconds(500));
  EXPECT_EQ(*parse_period("20ms", "p"), milliseconds(20));
  for (const char* bad : {"", "1", "s", "-1s", "1x", "1s 2s", "0s", "1ns", "25h", "nans", "1e9s",
                          "999999999999999999999h"}) {
    EXPECT_FALSE(parse_period(bad, "p").ok()) << bad;
  }
}

TEST(MonitorConfigFile, MistakesAreNamed) {
  EXPECT_THAT(error_of("{"), HasSubstr("byte"));
  EXPECT_THAT(error_of("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(error_of(R"({"perod": "1s"})"), HasSubstr("'perod'; expected period"));
  EXPECT_THAT(error_of(R"({"system_metrics": [{"type": "vcpu"}]})"),
              HasSubstr("system_metrics[0]: unknown metric group 'vcpu'"));
  EXPECT_THAT(error_of(R"({"system_metrics": [{"type": "memory_used"}]})"),
              HasSubstr("memory_info"));
  EXPECT_THAT(error_of(R"({"neuron_runtimes": [{"tag_filter": "("}]})"),
              HasSubstr("neuron_runtimes[0]: tag_filter '(' is no regular expression"));
  EXPECT_THAT(error_of(R"({"period": 5})"), HasSubstr("period"));
  EXPECT_THAT(error_of(R"({"period": "fast"})"), HasSubstr("root: period 'fast'"));
}

}  // namespace
}  // namespace onrt::tools
