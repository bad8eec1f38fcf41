// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <fstream>

#include "runtime/base/format.h"
#include "tools/common/args.h"
#include "tools/opennrt_doctor/findings.h"

namespace onrt::tools {
namespace {

constexpr rlim_t kFewFiles = 1024;                    // 32 ranks need more: aws-neuron-sdk#713
constexpr uint64_t kLittleSpace = uint64_t{1} << 30;  // Docker gives /dev/shm 64 MiB

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "no limit" : std::to_string(limit);
}

Finding open_files() {
  struct rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const bool few = limit.rlim_cur < kFewFiles;
  return {"limits", "open files", limit_text(limit.rlim_cur), few ? Level::kNote : Level::kOk,
          few ? "many ranks on one host need more: ulimit -n 65536" : ""};
}

Finding file_size() {
  struct rlimit limit = {};
  getrlimit(RLIMIT_FSIZE, &limit);
  const bool limited = limit.rlim_cur != RLIM_INFINITY;
  return {"limits", "file size", limit_text(limit.rlim_cur), limited ? Level::kNote : Level::kOk,
          limited ? "an emulated HBM is a file of its full size: ulimit -f unlimited" : ""};
}

Finding processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
  return {"limits", "processors", format("{} for this process", count), Level::kOk};
}

// First number of the line of /proc/meminfo that starts with `key`, in bytes.
uint64_t memory(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    uint64_t kib = 0;
    if (word == key && file >> kib) {
      return kib << 10;
    }
  }
  return 0;
}

Finding space(const std::string& folder) {
  struct statvfs info = {};
  if (statvfs(folder.c_str(), &info) != 0) {
    return {"limits", "space", folder + " cannot be examined", Level::kNote};
  }
  const uint64_t free_bytes = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  const bool little = free_bytes < kLittleSpace;
  return {"limits", "space", format("{} free in {}", format_bytes(free_bytes), folder),
          little ? Level::kNote : Level::kOk,
          little ? "HBM needs room: set OPENNRT_MACHINE_DIR to a larger place (docker run "
                   "--shm-size=4g)"
                 : ""};
}

}  // namespace

Findings check_limits(const std::string& machine_directory) {
  return {open_files(),
          file_size(),
          processors(),
          {"limits", "memory",
           format("{} of {} available", format_bytes(memory("MemAvailable:")),
                  format_bytes(memory("MemTotal:"))),
           Level::kOk},
          space(machine_directory.empty() ? "/dev/shm" : machine_directory)};
}

Findings check_versions() {
  struct utsname system = {};
  uname(&system);
  return {{"versions", "opennrt-doctor", std::string(tools_version()), Level::kOk},
          {"versions", "system", format("{} {} {}", system.sysname, system.release, system.machine),
           Level::kOk}};
}

Findings check_settings(const Context& context) {
  Findings found;
  for (const SettingInfo& row : setting_table()) {
    if (context.settings.is_set(row.setting)) {
      found.push_back({"settings", std::string(row.variable),
                       std::string(context.settings.text(row.setting)), Level::kOk});
    }
  }
  std::vector<std::string> problems = context.settings.problems();
  if (!context.log->problem().empty()) {
    problems.push_back(context.log->problem());
  }
  for (const std::string& problem : problems) {
    found.push_back(
        {"settings", "problem", problem, Level::kProblem, "nrt_init() refuses to start"});
  }
  for (const std::string& warning : context.settings.warnings()) {
    found.push_back({"settings", "warning", warning, Level::kNote});
  }
  return found;
}

}  // namespace onrt::tools
