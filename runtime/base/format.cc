// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY 1
#include "runtime/base/format.h"

#include <fmt/format.h>

namespace onrt {

std::string vformat(fmt::string_view text, fmt::format_args arguments) {
  return fmt::vformat(text, arguments);
}

std::string format_bytes(unsigned long long bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double scaled = static_cast<double>(bytes);
  int unit = 0;
  while (scaled >= 1024.0 && unit < 5) {
    scaled /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.4g} {}", scaled, kUnits[unit]);
}

}  // namespace onrt
