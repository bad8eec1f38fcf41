// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/rank_env.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "runtime/base/format.h"
#include "runtime/base/log.h"

namespace onrt::cc {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* root_host;
  const char* root_port;
};

constexpr Launcher kLaunchers[] = {
#define ONRT_LAUNCHER(name, rank, size, local_rank, local_size, root_host, root_port) \
  {name, rank, size, local_rank, local_size, root_host, root_port},
#include "collectives/boot/launchers.def"
#undef ONRT_LAUNCHER
};

constexpr int kMostRanks = 1 << 20;
constexpr size_t kLongestShown = 80;

std::string value_of(const Environment& environment, const char* name) {
  const char* value = *name == '\0' ? nullptr : environment(name);
  return value == nullptr ? std::string() : std::string(value);
}

Result<int> number(const Environment& environment, const char* name, int least, int most) {
  const std::string text = value_of(environment, name);
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    return Status(NRT_INVALID, format("{}: expected a whole number from {} to {}, found '{}'", name,
                                      least, most, one_line(text.substr(0, kLongestShown))));
  }
  return value;
}

// "32,32,32": as many processes as entries.
Result<int> size_of(const Launcher& launcher, const Environment& environment) {
  const std::string text = value_of(environment, launcher.size);
  if (text.find(',') != std::string::npos) {
    return static_cast<int>(std::count(text.begin(), text.end(), ',')) + 1;
  }
  if (std::string_view(launcher.name) == "Neuron PJRT") {
    return 1;
  }
  return number(environment, launcher.size, 1, kMostRanks);
}

Result<RankInfo> read_rank(const Launcher& launcher, const Environment& environment) {
  RankInfo info;
  info.launcher = launcher.name;
  ONRT_ASSIGN_OR_RETURN(info.size, size_of(launcher, environment));
  ONRT_ASSIGN_OR_RETURN(info.rank, number(environment, launcher.rank, 0, info.size - 1));
  if (!value_of(environment, launcher.local_size).empty()) {
    ONRT_ASSIGN_OR_RETURN(info.local_size, number(environment, launcher.local_size, 1, info.size));
  }
  if (!value_of(environment, launcher.local_rank).empty()) {
    ONRT_ASSIGN_OR_RETURN(info.local_rank, number(environment, launcher.local_rank, 0,
                                                  info.local_size.value_or(info.size) - 1));
  }
  const std::string host = value_of(environment, launcher.root_host);
  if (!host.empty() && !value_of(environment, launcher.root_port).empty()) {
    // The launcher's own store listens there.
    ONRT_ASSIGN_OR_RETURN(const int port, number(environment, launcher.root_port, 1, 65534));
    const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
    ONRT_ASSIGN_OR_RETURN(info.root,
                          parse_root_address(format("{}:{}", shown, port + 1), launcher.root_host));
  }
  return info;
}

}  // namespace

Result<std::optional<RankInfo>> discover_rank(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    if (!value_of(environment, launcher.rank).empty() &&
        !value_of(environment, launcher.size).empty()) {
      ONRT_ASSIGN_OR_RETURN(RankInfo info, read_rank(launcher, environment));
      return std::optional<RankInfo>(std::move(info));
    }
  }
  return std::optional<RankInfo>();
}

Result<std::optional<RankInfo>> discover_rank() {
  return discover_rank([](const char* name) -> const char* {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read only
  });
}

}  // namespace onrt::cc
