// SPDX-License-Identifier: Apache-2.0
// model.done of a compile cache's entry. What is read must be written the same.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "compiler/cache/entry.h"
#include "compiler/cache/files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // The folder's name comes from outside as well.
  if (const auto path = onrt::cache::path_of_url(text.substr(0, 200));
      path.ok() && (path->empty() || path->find("://") == 0)) {
    std::fprintf(stderr, "took '%s' for a folder\n", path->c_str());
    std::abort();
  }
  const auto info = onrt::cache::read_entry_info(text);
  if (!info.ok()) {
    return 0;
  }
  const std::string written = onrt::cache::write_entry_info(*info);
  const auto again = onrt::cache::read_entry_info(written);
  if (!again.ok() || onrt::cache::write_entry_info(*again) != written ||
      again->warnings != info->warnings || again->key != info->key) {
    std::fprintf(stderr, "an entry does not round-trip\n");
    std::abort();
  }
  return 0;
}
