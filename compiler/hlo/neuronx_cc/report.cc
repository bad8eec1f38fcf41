// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/neuronx_cc/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <system_error>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warning", "error",
                                                    "critical"};

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

}  // namespace

Status Report::open_log(const std::string& path, bool named_by_user) {
  log_.reset(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!log_.valid() && named_by_user) {
    const int error = errno;
    return Status(NRT_FAILURE, format("cannot write log file '{}': {}", path,
                                      std::generic_category().message(error)));
  }
  return ok_status();
}

void Report::write(Verbosity level, std::string_view text) {
  const std::string_view name = kNames[static_cast<size_t>(level)];
  if (level >= least_) {
    std::FILE* stream = level <= Verbosity::kInfo ? stdout : stderr;
    std::fputs(format("neuronx-cc: {}: {}\n", name, text).c_str(), stream);
  }
  if (log_.valid() && level >= Verbosity::kInfo) {
    const std::string line = format("{} {} {}\n", timestamp(), name, text);
    if (::write(log_.get(), line.data(), line.size()) < 0) {
      log_.reset();  // a full disk: the terminal still gets everything
    }
  }
}

}  // namespace onrt::cc
