// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/location.h"

#include <utility>

#include "runtime/base/format.h"

namespace onrt::hlo {

std::string printable(std::string_view text) {
  constexpr size_t kLongest = 200;
  std::string result(text.substr(0, kLongest));
  for (char& character : result) {
    if (character < ' ' || character > '~') {
      character = '?';
    }
  }
  return text.size() > kLongest ? result + "..." : result;
}

std::string source_text(const opennrt::hlo::Instruction& instruction) {
  const opennrt::hlo::SourceInfo& source = instruction.metadata();
  std::string text;
  if (!source.file().empty()) {
    text = format("source '{}:{}'", printable(source.file()), source.line());
  }
  if (!source.op_name().empty()) {
    text += format("{}op '{}'", text.empty() ? "" : ", ", printable(source.op_name()));
  }
  return text;
}

std::string locate(const opennrt::hlo::Module& module) {
  return format("module '{}'", printable(module.name()));
}

std::string locate(const opennrt::hlo::Module& module,
                   const opennrt::hlo::Computation& computation) {
  return format("{}, computation '{}'", locate(module), printable(computation.name()));
}

std::string locate(const opennrt::hlo::Module& module, const opennrt::hlo::Computation& computation,
                   const opennrt::hlo::Instruction& instruction) {
  std::string text = format("{}, instruction '{}' (opcode '{}'", locate(module, computation),
                            printable(instruction.name()), printable(instruction.opcode()));
  if (!instruction.custom_call_target().empty()) {
    text += format(", custom_call_target '{}'", printable(instruction.custom_call_target()));
  }
  text += ')';
  const std::string source = source_text(instruction);
  return source.empty() ? text : text + ", " + source;
}

Status malformed(std::string text) { return Status(NRT_INVALID, std::move(text)); }

Status unsupported(std::string text) {
  return Status(NRT_UNSUPPORTED_NEFF_VERSION, std::move(text));
}

}  // namespace onrt::hlo
