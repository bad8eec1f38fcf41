// SPDX-License-Identifier: Apache-2.0
// Addresses of this host and of names.
#pragma once

#include <string>
#include <vector>

#include "collectives/boot/root_address.h"
#include "runtime/base/status.h"

namespace onrt::cc {

// Numeric addresses of `address.host`, IPv4 first. NRT_FAILURE with the resolver's reason. May
// block as long as the system's resolver does; numbers never block.
Result<std::vector<std::string>> resolve(const RootAddress& address);

// Addresses of this host's interfaces, for messages and comparison.
std::vector<std::string> own_addresses();
bool is_own_address(const std::string& numeric);

// Equal for processes that can share memory, pids and `folder` (a descriptor): boot, pid namespace
// and the folder's identity.
std::string host_identity(int folder);
std::string own_host_name();

}  // namespace onrt::cc
