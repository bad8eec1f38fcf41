// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/registry.h"
#include "tools/opennrt_doctor/findings.h"

namespace onrt::tools {
namespace {

// Every row's own words, whatever OPENNRT_BACKEND says.
Findings probe_all(const Context& context) {
  Findings found;
  for (const DriverRow& row : driver_table()) {
    const Status probed = row.factory()->probe(context);
    found.push_back(
        {"backend", std::string(row.name),
         probed.ok() ? "can be used" : "cannot be used: " + std::string(probed.message()),
         Level::kOk});
  }
  return found;
}

}  // namespace

Findings check_backend(const Context& context) {
  Findings found = probe_all(context);
  const auto choice = choose_driver(context);
  Finding chosen = {"backend", "chosen", "", Level::kOk};
  if (choice.ok()) {
    chosen.value = std::string(choice->driver->name()) +
                   " (OPENNRT_BACKEND=" + std::string(context.settings.text(Setting::kBackend)) +
                   ")";
  } else {
    chosen.value = "none";
    chosen.level = Level::kProblem;
    chosen.advice =
        "set OPENNRT_EMULATE to an instance type, for example trn2.3xlarge, to emulate one";
    if (context.settings.text(Setting::kBackend) != "auto") {
      chosen.advice = std::string(choice.status().message());
    }
  }
  found.push_back(std::move(chosen));
  if (const auto faults = context.settings.text(Setting::kFaults); !faults.empty()) {
    found.push_back({"backend", "faults", std::string(faults), Level::kNote,
                     "OPENNRT_FAULTS injects failures on purpose"});
  }
  return found;
}

}  // namespace onrt::tools
