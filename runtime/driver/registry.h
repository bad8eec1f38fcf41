// SPDX-License-Identifier: Apache-2.0
// The table of backends (written by onrt_register(driver ...) lines) and the choice among them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/driver/driver.h"

namespace onrt {

struct DriverRow {
  std::string_view name;
  std::unique_ptr<Driver> (*factory)();
};

// In order of registration.
const std::vector<DriverRow>& driver_table();

// How a backend was chosen, for opennrt-doctor and error messages.
struct DriverChoice {
  std::unique_ptr<Driver> driver;
  std::string explanation;  // one line per row: name, probed or refused, why
};

// OPENNRT_BACKEND=auto takes the first row whose probe succeeds; a name takes that row. When
// OPENNRT_FAULTS is set the result is wrapped by the fault decorator. NRT_FAILURE with every row's
// reason when there is none.
Result<DriverChoice> choose_driver(const Context& context);

}  // namespace onrt
