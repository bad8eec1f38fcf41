// SPDX-License-Identifier: Apache-2.0
// Reads reports from a descriptor and answers HTTP requests for them.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace onrt::tools {

struct ServerOptions {
  std::string address = "0.0.0.0";
  uint16_t port = 8000;  // 0: any that is free
  int input = 0;         // descriptor with reports
};

// Serves until the input ends (success) or a signal comes. Prints the address on standard error.
// NRT_FAILURE when the address can't be had.
Status serve(const ServerOptions& options);

}  // namespace onrt::tools
