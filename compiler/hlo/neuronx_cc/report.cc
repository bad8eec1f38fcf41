// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/neuronx_cc/report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <system_error>

#include "runtime/base/file.h"
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
  log_ = open_file(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
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
    struct stat info{};
    if (::fstat(log_.get(), &info) != 0 ||
        !check_file_size_limit(static_cast<uint64_t>(info.st_size) + line.size(), "log").ok() ||
        !write_fully(log_.get(), line)) {
      log_.reset();  // a full disk: the terminal still gets everything
      std::fputs("neuronx-cc: warning: the log file can't be written any more; it ends here\n",
                 stderr);
    }
  }
}

}  // namespace onrt::cc
