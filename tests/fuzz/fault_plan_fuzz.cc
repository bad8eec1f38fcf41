// SPDX-License-Identifier: Apache-2.0
// Texts that a user or a file gives: OPENNRT_FAULTS, and the instance types of
// OPENNRT_MACHINE_FILE. An input whose first byte is '{' or '[' is a file of instance types.
#include <cstdlib>
#include <string_view>

#include "emulator/machine_profile.h"
#include "runtime/driver/fault_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('{') || text.starts_with('[')) {
    const auto profiles = onrt::emu::parse_profiles(text);
    if (!profiles.ok() && profiles.status().message().empty()) {
      std::abort();
    }
    return 0;
  }
  auto plan = onrt::FaultPlan::parse(text);
  if (!plan.ok()) {
    return 0;
  }
  onrt::FaultCounter counter(std::move(plan).value());
  for (int call = 0; call < 20; ++call) {
    static_cast<void>(counter.next(onrt::FaultOperation::kDma));
  }
  return 0;
}
