// SPDX-License-Identifier: Apache-2.0
// The configuration file of neuron-monitor: which metric groups, of which processes, how often.
// Source of names and defaults: SDK documentation, neuron-monitor user guide.
#pragma once

#include <array>
#include <chrono>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace onrt::tools {

enum class RuntimeGroup : uint8_t { kCoreCounters, kExecutionStats, kMemoryUsed, kVcpuUsage };
inline constexpr std::array<std::string_view, 4> kRuntimeGroupNames = {
    "neuroncore_counters", "execution_stats", "memory_used", "neuron_runtime_vcpu_usage"};

enum class SystemGroup : uint8_t { kHardwareCounters, kVcpuUsage, kMemoryInfo };
inline constexpr std::array<std::string_view, 3> kSystemGroupNames = {"neuron_hw_counters",
                                                                      "vcpu_usage", "memory_info"};

using Period = std::chrono::nanoseconds;
inline constexpr Period kDefaultPeriod = std::chrono::seconds(5);
inline constexpr Period kShortestPeriod = std::chrono::milliseconds(10);
inline constexpr Period kLongestPeriod = std::chrono::hours(24);

struct GroupConfig {
  int group = 0;  // RuntimeGroup or SystemGroup
  Period period = kDefaultPeriod;
};

struct RuntimeConfig {
  std::regex tag_filter{".*"};  // found anywhere in the tag
  std::vector<GroupConfig> groups;
};

struct MonitorConfig {
  std::vector<RuntimeConfig> runtimes;  // the first whose filter fits a process decides
  std::vector<GroupConfig> system;
};

// Every group of every process, each 5 s.
MonitorConfig default_config();

// NRT_INVALID names the key, what was expected and what was found.
Result<MonitorConfig> parse_config(std::string_view text);

// "1s", "500ms", "1m30s", "0.5s": numbers with ns, us, ms, s, m or h. `what` names it in messages.
Result<Period> parse_period(std::string_view text, std::string_view what);

}  // namespace onrt::tools
