// SPDX-License-Identifier: Apache-2.0
// Which rank this process is, from what launchers put into the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/boot/root_address.h"
#include "runtime/base/status.h"

namespace onrt::cc {

struct RankInfo {
  std::string launcher;  // "torchrun", "Open MPI", ...
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_size;
  std::optional<RootAddress> root;  // where the launcher says it; the port is one above its own
};

using Environment = std::function<const char*(const char* name)>;

// The first launcher of the table (launchers.def) whose variables are set; nothing when the process
// was started alone. NRT_INVALID names a variable, its value and what was expected.
Result<std::optional<RankInfo>> discover_rank(const Environment& environment);
Result<std::optional<RankInfo>> discover_rank();  // of this process

}  // namespace onrt::cc
