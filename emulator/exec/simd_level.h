// SPDX-License-Identifier: Apache-2.0
// Which vector instructions of the host the executors may use. Every level gives the same bits;
// the level only changes how fast.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/status.h"

namespace onrt {

enum class SimdLevel : uint8_t {
  kPlain,   // what the compiler's default target has: runs everywhere
  kSse4,    // x86-64-v2
  kAvx2,    // x86-64-v3: AVX2, FMA, F16C
  kAvx512,  // x86-64-v4: AVX-512 F, BW, CD, DQ, VL
  kNeon,    // aarch64 Advanced SIMD
};

// "plain", "sse4", "avx2", "avx512", "neon".
std::string_view simd_level_name(SimdLevel level);

// Levels that are compiled for this architecture, slowest first. A translation unit per level
// exists for each of them.
std::span<const SimdLevel> compiled_simd_levels();

// Whether this processor and operating system can execute code of `level`.
bool simd_level_runs_here(SimdLevel level);

// Fastest level that runs here. Cheap; callers keep the answer.
SimdLevel detect_simd_level();

// `text` (setting OPENNRT_EMU_SIMD) names a level; empty means detect_simd_level().
// NRT_INVALID for an unknown name and for a level that this host cannot run; the message lists
// those that it can.
Result<SimdLevel> choose_simd_level(std::string_view text);

}  // namespace onrt
