// SPDX-License-Identifier: Apache-2.0
// What `neuron-packager info` says about a NEFF.
#pragma once

#include <optional>
#include <string>

#include "runtime/neff/neff.h"
#include "tools/cost/cost_report.h"

namespace onrt::tools {

struct NeffReport {
  std::string path;
  uint64_t file_bytes = 0;
  NeffArchive archive;
  std::optional<NeffPackage> package;  // for a NEFF that this runtime can load
  std::string refusal;                 // else why it can't
  int refusal_code = 0;                // as nrt_load() would return it, hash unchecked
  std::optional<ProgramCost> cost;     // when asked for
};

std::string report_text(const NeffReport& report);
std::string report_json(const NeffReport& report);

// "8d0c1f2e-...": the usual form of a UUID.
std::string uuid_text(const std::array<uint8_t, 16>& uuid);

}  // namespace onrt::tools
