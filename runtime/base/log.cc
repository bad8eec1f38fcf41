// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <system_error>

#include "runtime/base/file.h"

namespace onrt {
namespace {

constexpr std::array<std::string_view, kLogComponents> kComponentNames = {"NRT", "TDRV", "NMGR",
                                                                          "NEFF", "HAL"};
constexpr std::array<std::string_view, 6> kLevelNames = {"QUIET", "ERROR", "WARN",
                                                         "INFO",  "DEBUG", "TRACE"};
constexpr std::array<int, 6> kSyslogPriority = {LOG_ERR,  LOG_ERR,   LOG_WARNING,
                                                LOG_INFO, LOG_DEBUG, LOG_DEBUG};

// "2026-Nov-30 16:31:12.123456", local time.
std::string timestamp() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  localtime_r(&now.tv_sec, &parts);
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return format("{}-{}-{:02} {:02}:{:02}:{:02}.{:06}", parts.tm_year + 1900, kMonths[parts.tm_mon],
                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, now.tv_nsec / 1000);
}

// Beyond `ulimit -f` the kernel would end the process with SIGXFSZ.
bool fits_file_size_limit(int fd, size_t more) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 &&
         (!S_ISREG(status.st_mode) ||
          check_file_size_limit(static_cast<uint64_t>(status.st_size) + more, "log").ok());
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (word == "WARNING") {
    word = "WARN";
  }
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (word == kLevelNames[i]) {
      return static_cast<LogLevel>(i);
    }
  }
  return std::nullopt;
}

std::string one_line(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      line += c;
    } else {
      line += "\\x";
      line += kHex[byte >> 4];
      line += kHex[byte & 15];
    }
  }
  return line;
}

Logger::Logger(const Settings& settings) {
  const LogLevel common =
      parse_log_level(settings.text(Setting::kLogLevel)).value_or(LogLevel::kWarning);
  levels_.fill(common);
  const auto override_level = [&](LogComponent component, Setting setting) {
    if (const auto level = parse_log_level(settings.text(setting))) {
      levels_[static_cast<size_t>(component)] = *level;
    }
  };
  override_level(LogComponent::kTdrv, Setting::kLogLevelTdrv);
  override_level(LogComponent::kNmgr, Setting::kLogLevelNmgr);
  override_level(LogComponent::kNrt, Setting::kLogLevelNrt);

  std::string_view places = settings.text(Setting::kLogLocation);
  while (!places.empty()) {
    const size_t comma = places.find(',');
    const std::string_view place = places.substr(0, comma);
    if (place == "console") {
      to_console_ = true;
    } else if (place == "syslog") {
      to_syslog_ = true;
    } else if (place.starts_with("file:") && !file_.valid()) {
      file_ = open_file(std::string(place.substr(5)), O_WRONLY | O_CREAT | O_APPEND, 0644);
      if (!file_.valid()) {
        to_console_ = true;
        problem_ = format("NEURON_RT_LOG_LOCATION='{}': cannot open '{}': {}",
                          settings.text(Setting::kLogLocation), place.substr(5),
                          std::generic_category().message(errno));
      }
    } else {
      to_console_ = true;
    }
    places = comma == std::string_view::npos ? std::string_view() : places.substr(comma + 1);
  }
}

void Logger::write(LogComponent component, LogLevel level, std::string_view function,
                   std::string_view text) {
  write_line(component, level, function, one_line(text));
}

void Logger::write_table(LogComponent component, LogLevel level, std::string_view function,
                         std::string_view text) {
  write_line(component, level, function, text);
}

void Logger::write_line(LogComponent component, LogLevel level, std::string_view function,
                        std::string_view text) {
  const auto name = kComponentNames[static_cast<size_t>(component)];
  const std::string line =
      format("{}  {}:{} {:>5} {:>5}:{:<40} {}\n", timestamp(), ::getpid(), ::syscall(SYS_gettid),
             kLevelNames[static_cast<size_t>(level)], name, function, text);
  // A log that can't be written has nowhere to report it.
  if (to_console_) {
    static_cast<void>(write_fully(STDERR_FILENO, line));
  }
  if (file_.valid() && fits_file_size_limit(file_.get(), line.size())) {
    static_cast<void>(write_fully(file_.get(), line));
  }
  if (to_syslog_) {
    ::syslog(LOG_USER | kSyslogPriority[static_cast<size_t>(level)], "%s:%.*s %.*s",
             std::string(name).c_str(), static_cast<int>(function.size()), function.data(),
             static_cast<int>(text.size()), text.data());
  }
}

Context Context::from_environment() {
  Context context{Settings::from_environment(), nullptr};
  context.log = std::make_unique<Logger>(context.settings);
  return context;
}

}  // namespace onrt
