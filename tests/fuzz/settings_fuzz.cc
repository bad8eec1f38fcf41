// SPDX-License-Identifier: Apache-2.0
// Environment: variables divided by newlines. Nothing may crash, and what is refused is named.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/settings.h"
#include "runtime/core/visible_cores.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> variables(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      variables.emplace_back();
    } else {
      variables.back().push_back(static_cast<char>(data[i]));
    }
  }
  const onrt::Settings settings = onrt::Settings::from_strings(variables);
  for (const onrt::SettingInfo& row : onrt::setting_table()) {
    const std::string_view text = settings.text(row.setting);
    onrt::parse_bytes(text);
    onrt::parse_log_level(text);
    if (row.type == onrt::SettingType::kFlag &&
        (settings.integer(row.setting) < 0 || settings.integer(row.setting) > 1)) {
      std::fprintf(stderr, "flag %s is %lld\n", std::string(row.variable).c_str(),
                   static_cast<long long>(settings.integer(row.setting)));
      std::abort();
    }
  }
  const auto request = onrt::requested_cores(settings, 4);
  if (request.ok() && (request->start < -1 || request->count < 1 ||
                       (request->start >= 0 && request->start + request->count > 4))) {
    std::fprintf(stderr, "cores %d, %d of 4\n", request->start, request->count);
    std::abort();
  }
  onrt::requested_logical_core_size(settings).ok();
  if (settings.problems().size() + settings.warnings().size() > variables.size()) {
    std::fprintf(stderr, "more complaints than variables\n");
    std::abort();
  }
  return 0;
}
