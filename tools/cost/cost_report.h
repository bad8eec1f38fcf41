// SPDX-License-Identifier: Apache-2.0
// What a NEFF costs by the timing model, as tools show it.
#pragma once

#include <string>

#include "emulator/cost.h"
#include "runtime/base/json.h"
#include "runtime/base/status.h"
#include "runtime/neff/neff.h"

namespace onrt::tools {

// Of the first logical core's program. Errors: as ncx::decode() and schedule().
Result<ProgramCost> neff_cost(const NeffPackage& package);

std::string cost_text(const ProgramCost& cost);
// One object.
void cost_json(const ProgramCost& cost, JsonWriter& out);

}  // namespace onrt::tools
