// SPDX-License-Identifier: Apache-2.0
// Where in a module a problem is: text for messages.
#pragma once

#include <string>
#include <string_view>

#include "compiler/hlo/hlo.pb.h"
#include "runtime/base/status.h"

namespace onrt::hlo {

// Text of a module as it may appear in a message: at most 200 bytes, control characters and bytes
// that are not ASCII replaced by '?'.
std::string printable(std::string_view text);

// "source 'train.py:42' (op 'jit(f)/sin')" or "" when the module has none.
std::string source_text(const opennrt::hlo::Instruction& instruction);

// "module 'm', computation 'c', instruction 'sine.3' (opcode 'sine'), source 'train.py:42'".
// Custom calls also name their target.
std::string locate(const opennrt::hlo::Module& module, const opennrt::hlo::Computation& computation,
                   const opennrt::hlo::Instruction& instruction);
std::string locate(const opennrt::hlo::Module& module,
                   const opennrt::hlo::Computation& computation);
std::string locate(const opennrt::hlo::Module& module);

// The two ways in which a module is refused; their codes are those of compiler/hir/status.h.
Status malformed(std::string text);
Status unsupported(std::string text);

}  // namespace onrt::hlo
