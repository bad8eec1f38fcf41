// SPDX-License-Identifier: Apache-2.0
// Log lines in the format of the Neuron runtime:
//   2026-Nov-30 16:31:12.123456  pid:tid LEVEL COMP:function  text
// Levels per component and places come from NEURON_RT_LOG_* settings.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/format.h"
#include "runtime/base/mutex.h"
#include "runtime/base/settings.h"
#include "runtime/base/unique_fd.h"

namespace onrt {

enum class LogLevel : uint8_t { kQuiet, kError, kWarning, kInfo, kDebug, kTrace };
enum class LogComponent : uint8_t { kNrt, kTdrv, kNmgr, kNeff, kHal };
inline constexpr size_t kLogComponents = 5;

// ERROR, WARN or WARNING, INFO, DEBUG, TRACE, QUIET, in any case.
std::optional<LogLevel> parse_log_level(std::string_view text);

// Thread-safe. write() is one write(2) per line per place, so lines of several processes do not
// mix.
class Logger {
 public:
  explicit Logger(const Settings& settings);
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  bool enabled(LogComponent component, LogLevel level) const {
    return level <= levels_[static_cast<size_t>(component)];
  }
  // One line: control characters in `text` (a tensor's name may hold anything) become \\x0a.
  void write(LogComponent component, LogLevel level, std::string_view function,
             std::string_view text);

  // Several lines of our own making, names in them made harmless by one_line().
  void write_table(LogComponent component, LogLevel level, std::string_view function,
                   std::string_view text);

  // Why the file of NEURON_RT_LOG_LOCATION can't be written; "" when it can or there is none.
  // nrt_init() refuses to start then.
  const std::string& problem() const { return problem_; }

 private:
  void write_line(LogComponent component, LogLevel level, std::string_view function,
                  std::string_view text);

  std::array<LogLevel, kLogComponents> levels_;
  bool to_console_ = false;
  bool to_syslog_ = false;
  UniqueFd file_;
  std::string problem_;
};

// `text` with control characters as \\x0a, so that it stays one line and can't forge another.
std::string one_line(std::string_view text);

// What every component below the C API needs; passed, never global.
struct Context {
  Settings settings;
  std::unique_ptr<Logger> log;

  static Context from_environment();
};

}  // namespace onrt

// ONRT_LOG(context.log, Tdrv, Error, "text {}", value): arguments are evaluated only when enabled.
#define ONRT_LOG(logger, component, level, ...)                                                    \
  do {                                                                                             \
    ::onrt::Logger& onrt_logger_ = *(logger);                                                      \
    if (onrt_logger_.enabled(::onrt::LogComponent::k##component, ::onrt::LogLevel::k##level)) {    \
      onrt_logger_.write(::onrt::LogComponent::k##component, ::onrt::LogLevel::k##level, __func__, \
                         ::onrt::format(__VA_ARGS__));                                             \
    }                                                                                              \
  } while (false)
