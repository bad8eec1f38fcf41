// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "runtime/observe/host_view.h"

namespace onrt::observe {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kTools = {"neuron-ls", "neuron-top", "neuron-monitor"};
// What selects a machine: a tool with other values looks at another one.
constexpr std::array<std::string_view, 3> kSelectors = {
    "OPENNRT_EMULATE=", "OPENNRT_MACHINE=", "OPENNRT_MACHINE_DIR="};

// "" for a file that can't be read: processes end at any time, and other users' are private.
std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string selectors_of(const fs::path& process) {
  const std::string environment = contents(process / "environ");
  std::string found;
  for (const std::string_view selector : kSelectors) {
    for (size_t at = 0; at < environment.size(); at = environment.find('\0', at) + 1) {
      const std::string_view entry(environment.c_str() + at);
      if (entry.starts_with(selector)) {
        found += std::string(entry) + '\n';
      }
      if (environment.find('\0', at) == std::string::npos) {
        break;
      }
    }
  }
  return found;
}

std::string command_line(const fs::path& process) {
  std::string text = contents(process / "cmdline");
  while (!text.empty() && text.back() == '\0') {
    text.pop_back();
  }
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

bool is_tool(const fs::path& process) {
  std::string name = contents(process / "comm");
  if (!name.empty() && name.back() == '\n') {
    name.pop_back();
  }
  return std::find(kTools.begin(), kTools.end(), name) != kTools.end();
}

}  // namespace

std::vector<ProcessView> find_onlookers() {
  std::vector<ProcessView> found;
  const std::string own = selectors_of("/proc/self");
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int pid = 0;
    const auto [rest, failure] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (failure != std::errc() || rest != name.data() + name.size() || !is_tool(entry->path()) ||
        selectors_of(entry->path()) != own) {
      continue;
    }
    found.push_back({pid, command_line(entry->path()), "NA"});
  }
  std::sort(found.begin(), found.end(),
            [](const ProcessView& a, const ProcessView& b) { return a.pid < b.pid; });
  return found;
}

}  // namespace onrt::observe
