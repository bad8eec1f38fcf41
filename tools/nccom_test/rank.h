// SPDX-License-Identifier: Apache-2.0
// One rank: a process that runs the operations and tells the parent about each size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/nccom_test/options.h"

namespace onrt::tools::nccom {

// What a rank says of a size, or of its start (row kStart). Sent over a pipe between processes of
// one binary, followed by `times` doubles: microseconds of the timed operations.
struct RowMessage {
  static constexpr int32_t kStart = -1;  // a failure before the first row
  static constexpr int32_t kEnd = -2;    // all rows were sent
  int32_t row = kStart;
  int32_t rank = 0;
  int32_t failed = 0;
  uint32_t unused = 0;
  uint64_t times = 0;
  uint64_t digest = 0;  // of the output, where results are checked
  char algorithm[32] = {};
  char transport[16] = {};
  char why[256] = {};
  char text[1024] = {};  // of a failure
};

// The main function of rank `rank`; writes to `pipe`. Gives the exit code.
int run_rank(const Options& options, const std::string& root, uint64_t seed, int rank, int pipe);

}  // namespace onrt::tools::nccom
