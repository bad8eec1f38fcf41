// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/registry.h"

#include "runtime/base/format.h"
#include "runtime/driver/fault_driver.h"

namespace onrt {

#define ONRT_ROW(name, factory) std::unique_ptr<Driver> factory();
#include "driver_table.inc"
#undef ONRT_ROW

namespace {

std::string row_names() {
  std::string names;
  for (const DriverRow& row : driver_table()) {
    names += names.empty() ? "" : ", ";
    names += row.name;
  }
  return names;
}

// Takes `driver`, behind the fault decorator when OPENNRT_FAULTS asks for one.
Result<DriverChoice> take(const Context& context, std::unique_ptr<Driver> driver,
                          std::string explanation) {
  const std::string_view faults = context.settings.text(Setting::kFaults);
  if (!faults.empty()) {
    ONRT_ASSIGN_OR_RETURN(FaultPlan plan, FaultPlan::parse(faults));
    driver = make_fault_driver(std::move(driver), std::move(plan));
    explanation += format("faults: OPENNRT_FAULTS={}\n", faults);
  }
  return DriverChoice{std::move(driver), std::move(explanation)};
}

}  // namespace

const std::vector<DriverRow>& driver_table() {
  static const std::vector<DriverRow> kTable = {
#define ONRT_ROW(name, factory) DriverRow{name, factory},
#include "driver_table.inc"
#undef ONRT_ROW
  };
  return kTable;
}

Result<DriverChoice> choose_driver(const Context& context) {
  const std::string_view wanted = context.settings.text(Setting::kBackend);
  std::string explanation;
  bool known = wanted == "auto";
  NRT_STATUS code = NRT_FAILURE;  // NRT_INVALID when a setting is to blame
  for (const DriverRow& row : driver_table()) {
    if (wanted != "auto" && wanted != row.name) {
      explanation += format("{}: not asked for (OPENNRT_BACKEND={})\n", row.name, wanted);
      continue;
    }
    known = true;
    auto driver = row.factory();
    const Status probed = driver->probe(context);
    if (probed.ok()) {
      explanation += format("{}: chosen\n", row.name);
      return take(context, std::move(driver), std::move(explanation));
    }
    explanation += format("{}: {}\n", row.name, probed.message());
    code = probed.code() == NRT_INVALID ? NRT_INVALID : code;
  }
  if (!known) {
    return Status(NRT_INVALID,
                  format("OPENNRT_BACKEND='{}': expected auto or one of: {}", wanted, row_names()));
  }
  if (!explanation.empty()) {
    explanation.pop_back();
  }
  for (size_t at = 0; (at = explanation.find('\n', at)) != std::string::npos; ++at) {
    explanation.replace(at, 1, "; ");
  }
  return Status(code,
                format("no backend can be used (OPENNRT_BACKEND={}): {}", wanted, explanation));
}

}  // namespace onrt
