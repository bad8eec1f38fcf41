// SPDX-License-Identifier: Apache-2.0
// A user and mount namespace in which the driver's files are at their real places.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace onrt::tools {

// Puts this process, which has one thread, into namespaces of its own, with the same user.
// NRT_FAILURE says what the kernel refuses.
Status enter_namespaces();

// Shows the entries of folder `extra` in `place` beside those that are there. NRT_FAILURE names the
// place.
Status add_entries(const std::string& extra, const std::string& place);

// `from` at `to`, read-only.
Status bind_read_only(const std::string& from, const std::string& to);

// An empty file system in memory at `folder`.
Status mount_memory(const std::string& folder);
// Takes it away for those who have nothing of it open.
void unmount(const std::string& folder);

}  // namespace onrt::tools
