// SPDX-License-Identifier: Apache-2.0
// host:port of the rank that others find first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace onrt::cc {

struct RootAddress {
  std::string host;  // IPv4, IPv6 without brackets, or a name
  uint16_t port = 0;
  std::string text() const;  // brackets around IPv6
};

// "10.0.0.1:45654", "[fd00::1]:45654", "node-0:45654". NRT_INVALID names `variable`, what was
// expected and what was found.
Result<RootAddress> parse_root_address(std::string_view text, std::string_view variable);

}  // namespace onrt::cc
