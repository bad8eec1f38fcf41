// SPDX-License-Identifier: Apache-2.0
// An entry of the disk cache: a folder MODULE_<graph>+<flags> with the vendor's file names
// (SDK documentation, "Neuron Persistent Cache", and published caches):
//   model.neff          the NEFF
//   model.done          there when the entry is complete; the vendor's is empty, ours says what the
//                       entry is (EntryInfo as JSON), so that damage is seen
//   compile_flags.json  the options, for people and tools
//   model.hits          ours: one byte a hit; its time is that of the last use
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/cache/key.h"
#include "runtime/base/status.h"

namespace onrt::cache {

inline constexpr const char* kNeffFile = "model.neff";
inline constexpr const char* kDoneFile = "model.done";
inline constexpr const char* kFlagsFile = "compile_flags.json";
inline constexpr const char* kHitsFile = "model.hits";

inline constexpr size_t kMostDoneBytes = size_t{1} << 20;

// What is kept of a compilation.
struct Program {
  std::vector<std::byte> neff;
  std::string warnings;  // lines, as from nrtcc_last_warnings()

  size_t bytes() const { return neff.size() + warnings.size(); }
};

struct EntryInfo {
  std::string key;  // key_text()
  std::string compiler;
  std::string graph;  // name of the graph that was compiled first
  std::string warnings;
  std::string sha256;  // hexadecimal: of the NEFF followed by `warnings`
  uint64_t neff_bytes = 0;
  int64_t created = 0;  // seconds since 1970
  int64_t compile_us = 0;
};

// Texts must be UTF-8.
std::string write_entry_info(const EntryInfo& info);
// Errors: NRT_INVALID for what write_entry_info() doesn't write; names the field.
Result<EntryInfo> read_entry_info(std::string_view text);

}  // namespace onrt::cache
