// SPDX-License-Identifier: Apache-2.0
// What must be equal on all ranks before the first byte of data moves.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/settings.h"

namespace onrt::cc {

struct FingerprintEntry {
  std::string name;
  std::string value;  // "" for a variable that isn't set
  bool operator==(const FingerprintEntry&) const = default;
};

// Library version and the settings that change what ranks send each other. Callers append topology
// (instance type, cores per rank).
std::vector<FingerprintEntry> standard_fingerprint(const Settings& settings);

// "" when equal; else one line a difference: name, both ranks and their values (at most 16 lines).
std::string fingerprint_difference(int rank_a, std::span<const FingerprintEntry> a, int rank_b,
                                   std::span<const FingerprintEntry> b);

}  // namespace onrt::cc
