// SPDX-License-Identifier: Apache-2.0
// Making, resetting and removing emulated machines, for opennrt-machine.
#pragma once

#include <string>

#include "runtime/base/log.h"
#include "runtime/base/status.h"

namespace onrt::emu {

// Makes the machine that the settings choose (OPENNRT_EMULATE, OPENNRT_MACHINE), idle. Its folder.
// Does nothing when it exists already with the same instance type.
Result<std::string> create_machine(const Context& context);

// Brings the machine in `directory` back to its first state: no owner, no memory, counters at zero.
// Errors: NRT_RESOURCE while a process uses it (names the pids), NRT_FAILURE when its instance type
// can't be read (then only removing helps).
Status reset_machine(const Context& context, const std::string& directory);

// Removes the machine's files and folder, of this or another layout version, damaged or not.
// Errors: NRT_RESOURCE while a process uses it, NRT_FAILURE when the folder holds anything else.
Status remove_machine(const Context& context, const std::string& directory);

}  // namespace onrt::emu
