// SPDX-License-Identifier: Apache-2.0
// What opennrt-doctor looks at: one function per topic, each returns findings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/log.h"

namespace onrt::tools {

enum class Level : uint8_t {
  kOk,
  kNote,     // works, but somebody may wonder
  kProblem,  // nrt_init() would fail, or not do what was asked for
};

struct Finding {
  std::string topic;  // "backend"
  std::string name;   // "emulator"
  std::string value;  // what was found
  Level level = Level::kOk;
  std::string advice = {};  // what to do about it; "" for kOk
};

using Findings = std::vector<Finding>;

Findings check_versions();
Findings check_settings(const Context& context);
// Which rows of the driver table were probed, with what result, and which one is used.
Findings check_backend(const Context& context);
// The emulated machine: name, folder, owner, what backs its HBM, who uses it.
Findings check_machine(const Context& context);
// The libnrt.so.1 that a client would get, and why.
Findings check_library();
// The PyTorch that python3 on the PATH would import, and whether it has device "neuron".
Findings check_python();
// Limits of this process and host that runs run into.
Findings check_limits(const std::string& machine_directory);

std::string findings_text(const Findings& findings);
std::string findings_json(const Findings& findings);
bool has_problem(const Findings& findings);

}  // namespace onrt::tools
