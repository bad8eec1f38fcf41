// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/simd_level.h"

#include <array>
#include <string>

#include "runtime/base/format.h"

namespace onrt {
namespace {

struct LevelRow {
  SimdLevel level;
  std::string_view name;
};
constexpr std::array<LevelRow, 5> kLevels = {{{SimdLevel::kPlain, "plain"},
                                              {SimdLevel::kSse4, "sse4"},
                                              {SimdLevel::kAvx2, "avx2"},
                                              {SimdLevel::kAvx512, "avx512"},
                                              {SimdLevel::kNeon, "neon"}}};

#if defined(__x86_64__)
constexpr std::array kCompiled = {SimdLevel::kPlain, SimdLevel::kSse4, SimdLevel::kAvx2,
                                  SimdLevel::kAvx512};
#elif defined(__aarch64__)
constexpr std::array kCompiled = {SimdLevel::kPlain, SimdLevel::kNeon};
#else
constexpr std::array kCompiled = {SimdLevel::kPlain};
#endif

}  // namespace

std::string_view simd_level_name(SimdLevel level) {
  return kLevels[static_cast<size_t>(level)].name;
}

std::span<const SimdLevel> compiled_simd_levels() { return kCompiled; }

bool simd_level_runs_here(SimdLevel level) {
  switch (level) {
    case SimdLevel::kPlain:
      return true;
#if defined(__x86_64__)
    // The builtins also ask the operating system whether it saves the wide registers.
    case SimdLevel::kSse4:
      return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    case SimdLevel::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
    case SimdLevel::kAvx512:
      return simd_level_runs_here(SimdLevel::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
    case SimdLevel::kNeon:
      return true;
#endif
    default:
      return false;
  }
}

SimdLevel detect_simd_level() {
  SimdLevel best = SimdLevel::kPlain;
  for (SimdLevel level : kCompiled) {
    if (simd_level_runs_here(level)) {
      best = level;
    }
  }
  return best;
}

Result<SimdLevel> choose_simd_level(std::string_view text) {
  if (text.empty()) {
    return detect_simd_level();
  }
  std::string usable;
  for (SimdLevel level : kCompiled) {
    if (simd_level_runs_here(level)) {
      if (simd_level_name(level) == text) {
        return level;
      }
      usable += usable.empty() ? "" : ", ";
      usable += simd_level_name(level);
    }
  }
  return Status(NRT_INVALID,
                format("OPENNRT_EMU_SIMD: expected one of {} (what this host can run), "
                       "found '{}'",
                       usable, text));
}

}  // namespace onrt
