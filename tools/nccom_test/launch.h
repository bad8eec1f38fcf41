// SPDX-License-Identifier: Apache-2.0
// The parent: starts a process for each rank, and makes rows of what they say.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/nccom_test/options.h"
#include "tools/nccom_test/report.h"

namespace onrt::tools::nccom {

struct Outcome {
  std::vector<Row> rows;  // until the first that failed
  std::string failure;    // of a rank before its first row, or after the last; "": none
  std::string log_file;   // what the ranks wrote to standard error; "" when it was removed
};

// Runs the series. `show` is called with each row when it is complete, `progress` (may be empty)
// with the number of complete rows. NRT_FAILURE when the processes can't be started.
Result<Outcome> run_series(const Options& options, uint64_t seed,
                           const std::function<void(const Row&)>& show,
                           const std::function<void(size_t)>& progress);

}  // namespace onrt::tools::nccom
