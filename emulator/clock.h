// SPDX-License-Identifier: Apache-2.0
// CLOCK_MONOTONIC in ns: the same in every process of the host.
#pragma once

#include <time.h>

#include <cstdint>

namespace onrt::emu {

inline uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000ULL + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace onrt::emu
