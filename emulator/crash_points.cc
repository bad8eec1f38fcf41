// SPDX-License-Identifier: Apache-2.0
#include "emulator/crash_points.h"

#include <unistd.h>

#include <charconv>
#include <csignal>

#include "runtime/base/format.h"

namespace onrt::emu {

std::vector<std::string_view> crash_point_names() {
  return {
#define ONRT_CRASH_POINT_ROW(name) #name,
#include "emulator/crash_points.def"
#undef ONRT_CRASH_POINT_ROW
  };
}

Status CrashPlan::set(std::string_view text) {
  if (text.empty()) {
    return ok_status();
  }
  const size_t at = text.find('@');
  const std::string_view digits = at == std::string_view::npos ? "1" : text.substr(at + 1);
  uint64_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc() || end != digits.data() + digits.size() || count == 0) {
    return Status(NRT_INVALID,
                  format("OPENNRT_CRASH_POINT='{}': expected name@n with n from 1", text));
  }
  const auto names = crash_point_names();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text.substr(0, at)) {
      point_ = static_cast<CrashPoint>(i);
      passes_left_ = count;
      return ok_status();
    }
  }
  return Status(NRT_INVALID, format("OPENNRT_CRASH_POINT='{}': unknown crash point", text));
}

void CrashPlan::pass_armed() {
  if (passes_left_.fetch_sub(1) == 1) {
    ::kill(::getpid(), SIGKILL);
  }
}

}  // namespace onrt::emu
