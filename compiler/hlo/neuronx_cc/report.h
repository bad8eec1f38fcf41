// SPDX-License-Identifier: Apache-2.0
// Messages of neuronx-cc: to the terminal by --verbose, and to the log file.
#pragma once

#include <string>
#include <string_view>

#include "compiler/hlo/neuronx_cc/options.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::cc {

// Debug and info go to stdout, the rest to stderr; the log file takes everything from info on.
class Report {
 public:
  explicit Report(Verbosity least) : least_(least) {}

  // A log file that cannot be written is an error only when the user named it.
  Status open_log(const std::string& path, bool named_by_user);
  void write(Verbosity level, std::string_view text);

 private:
  Verbosity least_;
  UniqueFd log_;
};

}  // namespace onrt::cc
