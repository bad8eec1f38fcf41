// SPDX-License-Identifier: Apache-2.0
// Where a job's secret comes from.
#pragma once

#include <string>

#include "collectives/boot/hmac.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::cc {

// Shortest and longest secret that a file or descriptor may hold.
inline constexpr size_t kLeastSecret = 16;
inline constexpr size_t kMostSecret = 4096;

// A file of the user's own (or root's) that nobody else may read. NRT_INVALID names the path and
// what is wrong with it.
Result<HmacKey> secret_from_file(const std::string& path);
// An inherited descriptor: from its start where it has one, else to its end. Left open.
Result<HmacKey> secret_from_fd(int fd);

// Makes `path` (0700) with its parents when missing; refuses a folder that is not the user's own or
// that others may write to.
Result<UniqueFd> open_private_folder(const std::string& path);
// The random secret of a folder, made by whoever comes first: all callers get the same one.
Result<HmacKey> local_secret(int folder);
inline constexpr const char* kLocalSecretName = "cc.secret";

}  // namespace onrt::cc
