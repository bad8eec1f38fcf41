// SPDX-License-Identifier: Apache-2.0
// Why a job ended: what every rank is told.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace onrt::cc {

enum class CauseKind : uint8_t {
  kAborted = 1,  // somebody called abort()
  kPeerDied,     // a process ended without leaving
  kPeerSilent,   // no life sign within the limit
  kTimeout,      // ranks did not arrive before a deadline
  kMismatch,     // size, rank, order or environment differ
  kRefused,      // authentication
  kProtocol,     // a peer sent what no rank sends
};

struct Cause {
  CauseKind kind = CauseKind::kAborted;
  NRT_STATUS code = NRT_FAILURE;
  int rank = -1;      // the culprit; -1 unknown
  int reporter = -1;  // who noticed
  std::string text;   // whole, readable, at most kLongestCause bytes

  Status status() const { return Status(code, text); }
};

inline constexpr size_t kLongestCause = 1800;

}  // namespace onrt::cc
