// SPDX-License-Identifier: Apache-2.0
// Crash points: OPENNRT_CRASH_POINT=name@n makes the process kill itself (SIGKILL) at the nth pass
// of that point. Only for tests of the journal; costs one comparison elsewhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace onrt::emu {

enum class CrashPoint : uint8_t {
#define ONRT_CRASH_POINT_ROW(name) name,  // NOLINT(readability-identifier-naming)
#include "emulator/crash_points.def"
#undef ONRT_CRASH_POINT_ROW
  kNone,
};

// All names, in the order of crash_points.def.
std::vector<std::string_view> crash_point_names();

// Thread-safe.
class CrashPlan {
 public:
  CrashPlan() = default;
  // "" or "name@n". NRT_INVALID for an unknown name or a count that is not a number from 1.
  Status set(std::string_view text);

  void pass(CrashPoint point) {
    if (point == point_) {
      pass_armed();
    }
  }

 private:
  void pass_armed();

  CrashPoint point_ = CrashPoint::kNone;
  std::atomic<uint64_t> passes_left_{0};
};

}  // namespace onrt::emu

// ONRT_CRASH_POINT(plan, claim_done): `plan` is a CrashPlan.
#define ONRT_CRASH_POINT(plan, name) (plan).pass(::onrt::emu::CrashPoint::name)
