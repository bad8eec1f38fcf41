// SPDX-License-Identifier: Apache-2.0
// What two compilations must have in common to give the same program.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace onrt::cache {

using Digest = std::array<uint8_t, 32>;

// `graph`: the canonical form of a graph; `flags`: the options that change the program.
struct Key {
  Digest graph{};
  Digest flags{};

  auto operator<=>(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const;
};

// Name of a key's folder: "MODULE_<32 hex digits>+<8 hex digits>".
std::string entry_name(const Key& key);
// Both digests whole: "<64 hex digits>+<64 hex digits>".
std::string key_text(const Key& key);

// Identifies the compiler whose results are kept: "<version>+opennrt-<digits>". The digits are a
// digest of the compiler's sources, so that an entry never outlives the code that made it.
std::string_view compiler_id();

}  // namespace onrt::cache
