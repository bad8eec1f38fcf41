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
  void write(LogComponent component, LogLevel level, std::string_view function,
             std::string_view text);

 private:
  std::array<LogLevel, kLogComponents> levels_;
  bool to_console_ = false;
  bool to_syslog_ = false;
  UniqueFd file_;
};

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
