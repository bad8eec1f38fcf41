// SPDX-License-Identifier: Apache-2.0
// What /proc says of the host and of processes: time of the vCPUs, memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace onrt::observe {

inline constexpr std::array<std::string_view, 7> kCpuStates = {"user",    "nice", "system",  "idle",
                                                               "io_wait", "irq",  "soft_irq"};
using CpuTimes = std::array<uint64_t, 7>;  // clock ticks, by kCpuStates

struct HostTimes {
  CpuTimes all{};
  std::vector<std::pair<int, CpuTimes>> each;  // by number of the vCPU
  uint64_t context_switches = 0;
};
// NRT_FAILURE when /proc/stat can't be read.
Result<HostTimes> read_host_times(const std::string& proc = "/proc");
// Percent of the time between the two; zeros when none passed.
std::array<double, 7> cpu_percent(const CpuTimes& before, const CpuTimes& now);

struct MemoryInfo {
  uint64_t total = 0;
  uint64_t used = 0;  // total without what is available
  uint64_t swap_total = 0;
  uint64_t swap_used = 0;
};
Result<MemoryInfo> read_memory_info(const std::string& proc = "/proc");

struct ProcessLoad {
  uint64_t user_ticks = 0;
  uint64_t system_ticks = 0;
  uint64_t private_bytes = 0;  // RssAnon
};
// Nothing when there is no such process, or it can't be seen.
std::optional<ProcessLoad> read_process_load(int pid, const std::string& proc = "/proc");

}  // namespace onrt::observe
