// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/host_load.h"

#include <charconv>
#include <sstream>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::observe {
namespace {

// Files of /proc have no size; a few MiB is more than any of these has.
Result<std::string> contents(const std::string& path) {
  constexpr uint64_t kMost = 16 << 20;
  ONRT_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_file(path, kMost));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

uint64_t number(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "Name:   123 kB" in bytes; 0 when it isn't there.
uint64_t kilobytes(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == std::string_view::npos || (at != 0 && text[at - 1] != '\n')) {
    return 0;
  }
  const size_t digits = text.find_first_of("0123456789", at + name.size());
  return digits == std::string_view::npos ? 0 : number(text.substr(digits)) * 1024;
}

// "cpu3 1 2 3 ...": user nice system idle iowait irq softirq.
CpuTimes cpu_times(std::istringstream& line) {
  CpuTimes times{};
  for (uint64_t& time : times) {
    line >> time;
  }
  return times;
}

}  // namespace

Result<HostTimes> read_host_times(const std::string& proc) {
  ONRT_ASSIGN_OR_RETURN(const std::string text, contents(proc + "/stat"));
  HostTimes times;
  bool found = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "cpu") {
      times.all = cpu_times(words);
      found = true;
    } else if (name.starts_with("cpu")) {
      times.each.emplace_back(static_cast<int>(number(std::string_view(name).substr(3)) % 65536),
                              cpu_times(words));
    } else if (name == "ctxt") {
      words >> times.context_switches;
    }
  }
  if (!found) {
    return Status(NRT_FAILURE, format("{}/stat has no line for the vCPUs", proc));
  }
  return times;
}

std::array<double, 7> cpu_percent(const CpuTimes& before, const CpuTimes& now) {
  std::array<double, 7> percent{};
  CpuTimes passed{};
  uint64_t sum = 0;
  for (size_t i = 0; i < passed.size(); ++i) {
    passed[i] = now[i] > before[i] ? now[i] - before[i] : 0;  // idle may run backwards
    sum += passed[i];
  }
  for (size_t i = 0; i < passed.size() && sum != 0; ++i) {
    percent[i] = 100.0 * static_cast<double>(passed[i]) / static_cast<double>(sum);
  }
  return percent;
}

Result<MemoryInfo> read_memory_info(const std::string& proc) {
  ONRT_ASSIGN_OR_RETURN(const std::string text, contents(proc + "/meminfo"));
  MemoryInfo info;
  info.total = kilobytes(text, "MemTotal:");
  const uint64_t available = kilobytes(text, "MemAvailable:");
  info.used = info.total > available ? info.total - available : 0;
  info.swap_total = kilobytes(text, "SwapTotal:");
  const uint64_t swap_free = kilobytes(text, "SwapFree:");
  info.swap_used = info.swap_total > swap_free ? info.swap_total - swap_free : 0;
  if (info.total == 0) {
    return Status(NRT_FAILURE, format("{}/meminfo has no MemTotal", proc));
  }
  return info;
}

std::optional<ProcessLoad> read_process_load(int pid, const std::string& proc) {
  const std::string folder = format("{}/{}", proc, pid);
  const auto stat = contents(folder + "/stat");
  const auto status = contents(folder + "/status");
  if (!stat.ok() || !status.ok()) {
    return std::nullopt;
  }
  // The name in parentheses may hold anything; fields are counted from its end: utime is 14.
  const size_t end = stat->rfind(')');
  if (end == std::string::npos) {
    return std::nullopt;
  }
  std::istringstream fields(stat->substr(end + 1));
  std::string skipped;
  for (int i = 3; i < 14; ++i) {
    fields >> skipped;
  }
  ProcessLoad load;
  fields >> load.user_ticks >> load.system_ticks;
  load.private_bytes = kilobytes(*status, "RssAnon:");
  return load;
}

}  // namespace onrt::observe
