// SPDX-License-Identifier: Apache-2.0
#include "compiler/hir/graph.h"

#include <algorithm>

#include "compiler/hir/infer.h"
#include "compiler/hir/status.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

std::string make_label(Opcode opcode, std::span<const Attribute> attributes, ValueId id) {
  for (const Attribute& attribute : attributes) {
    if (attribute.key == AttributeKey::kName) {
      return std::string(attribute.text());
    }
  }
  return format("{}.{}", opcode_name(opcode), id);
}

std::string described(Opcode opcode, const std::string& label) {
  return format("instruction '{}' ({})", label, opcode_name(opcode));
}

Status set_name(std::vector<std::string>& names, std::string_view what, int32_t index,
                std::string_view name) {
  if (index < 0 || index >= kMaxParameters) {
    return invalid(format("{} name '{}': expected an index in [0, {}), found {}", what, name,
                          kMaxParameters, index));
  }
  if (name.empty() || name.size() > 255 || name.find('\0') != std::string_view::npos) {
    return invalid(
        format("{} {}: expected a name of 1..255 bytes, found {} bytes", what, index, name.size()));
  }
  if (names.size() <= static_cast<size_t>(index)) {
    names.resize(static_cast<size_t>(index) + 1);
  }
  names[static_cast<size_t>(index)] = name;
  return ok_status();
}

}  // namespace

Graph::Graph(std::string_view name) : name_(name) {
  computations_.emplace_back().name = arena_.copy(std::string_view("main"));
}

Result<ComputationId> Graph::add_computation(std::string_view name) {
  if (computations_.size() >= kMaxComputations) {
    return too_large(
        format("computation '{}': above the limit of {} computations", name, kMaxComputations));
  }
  computations_.emplace_back().name = arena_.copy(name);
  return static_cast<ComputationId>(computations_.size() - 1);
}

void Graph::rename_computation(ComputationId computation, std::string_view name) {
  computations_[static_cast<size_t>(computation)].name = arena_.copy(name);
}

Status Graph::check_structure(const Candidate& candidate) const {
  if (candidate.computation < 0 ||
      static_cast<size_t>(candidate.computation) >= computations_.size()) {
    return invalid(format("{}: computation {}: expected one of [0, {})",
                          opcode_name(candidate.opcode), candidate.computation,
                          computations_.size()));
  }
  const OpcodeInfo& info = opcode_info(candidate.opcode);
  if (!info.refusal.empty()) {
    std::string target;
    for (const Attribute& attribute : candidate.attributes) {
      if (attribute.key == AttributeKey::kTarget) {
        target = format(" target '{}'", attribute.text());
      }
    }
    return unsupported(format("{}{}: opcode '{}' is not supported: {}", describe(*this, candidate),
                              target, info.name, info.refusal));
  }
  if (computation(candidate.computation).closed >= 0) {
    return invalid(
        format("{}: computation {} ('{}') is called already and takes no more "
               "operations",
               describe(*this, candidate), candidate.computation,
               computation(candidate.computation).name));
  }
  const int count = static_cast<int>(candidate.operands.size());
  if (count < info.least_operands || count > info.most_operands) {
    return invalid(format("{}: expected {}{} operands, found {}", describe(*this, candidate),
                          info.least_operands == info.most_operands ? "" : "at least ",
                          count > info.most_operands ? info.most_operands : info.least_operands,
                          count));
  }
  for (size_t i = 0; i < candidate.operands.size(); ++i) {
    const ValueId operand = candidate.operands[i];
    if (operand < 0 || static_cast<size_t>(operand) >= instructions_.size()) {
      return invalid(format("{}: operand {}: expected a value of [0, {}), found {}",
                            describe(*this, candidate), i, instructions_.size(), operand));
    }
    if ((*this)[operand].computation != candidate.computation) {
      return invalid(
          format("{}: operand {} ('{}'): expected a value of computation {}, found one "
                 "of computation {}",
                 describe(*this, candidate), i, label(operand), candidate.computation,
                 (*this)[operand].computation));
    }
  }
  if (candidate.shape < 0 || static_cast<size_t>(candidate.shape) >= shapes_.size()) {
    return internal(
        format("{}: shape id {} does not exist", describe(*this, candidate), candidate.shape));
  }
  return ok_status();
}

// Callees must be complete; a call closes them.
Status Graph::check_calls(const Candidate& candidate) {
  for (const Attribute& attribute : candidate.attributes) {
    if (attribute.key != AttributeKey::kCalled) {
      continue;
    }
    for (const int64_t id : attribute.ints) {
      if (id <= 0 || id >= static_cast<int64_t>(computations_.size()) ||
          id == candidate.computation) {
        return invalid(format("{}: called computation: expected another one of (0, {}), found {}",
                              describe(*this, candidate), computations_.size(), id));
      }
      const Computation& callee = computation(static_cast<ComputationId>(id));
      if (callee.root < 0) {
        return invalid(format("{}: called computation {} ('{}') has no root yet",
                              describe(*this, candidate), id, callee.name));
      }
      if (callee.depth >= kMaxCallDepth) {
        return invalid(format("{}: calls are nested deeper than {} levels",
                              describe(*this, candidate), kMaxCallDepth));
      }
      for (size_t i = 0; i < callee.parameters.size(); ++i) {
        if (callee.parameters[i] < 0) {
          return invalid(format("{}: called computation {} ('{}') lacks parameter {}",
                                describe(*this, candidate), id, callee.name, i));
        }
      }
    }
  }
  return ok_status();
}

Status Graph::place_parameter(const Candidate& candidate, ValueId value) {
  int64_t number = -1;
  for (const Attribute& attribute : candidate.attributes) {
    if (attribute.key == AttributeKey::kParameterNumber && attribute.ints.size() == 1) {
      number = attribute.ints[0];
    }
  }
  if (number < 0 || number >= kMaxParameters) {
    return invalid(format("{}: parameter number: expected one of [0, {}), found {}",
                          describe(*this, candidate), kMaxParameters, number));
  }
  auto& parameters = computations_[static_cast<size_t>(candidate.computation)].parameters;
  if (parameters.size() <= static_cast<size_t>(number)) {
    parameters.resize(static_cast<size_t>(number) + 1, -1);
  }
  if (parameters[static_cast<size_t>(number)] >= 0) {
    return invalid(format("{}: parameter number {} is taken by '{}'", describe(*this, candidate),
                          number, label(parameters[static_cast<size_t>(number)])));
  }
  parameters[static_cast<size_t>(number)] = value;
  return ok_status();
}

Result<ValueId> Graph::append(const Candidate& candidate) {
  if (instructions_.size() >= kMaxInstructions) {
    return too_large(
        format("graph '{}': above the limit of {} operations", name_, kMaxInstructions));
  }
  ONRT_RETURN_IF_ERROR(check_structure(candidate));
  ONRT_RETURN_IF_ERROR(check_calls(candidate));
  InferContext context(*this, candidate);
  ONRT_ASSIGN_OR_RETURN(const ShapeId expected, infer(context));
  if (expected != candidate.shape) {
    return invalid(format("{}: shape: expected {}, found {}", describe(*this, candidate),
                          shapes_.text(expected), shapes_.text(candidate.shape)));
  }
  const auto id = static_cast<ValueId>(instructions_.size());
  if (candidate.opcode == Opcode::kParameter) {
    ONRT_RETURN_IF_ERROR(place_parameter(candidate, id));
  }
  Instruction made{candidate.opcode,
                   candidate.shape,
                   candidate.computation,
                   arena_.copy(candidate.operands),
                   {}};
  const std::span<Attribute> attributes = arena_.allocate<Attribute>(candidate.attributes.size());
  for (size_t i = 0; i < attributes.size(); ++i) {
    const Attribute& from = candidate.attributes[i];
    attributes[i] = {from.key, arena_.copy(from.ints), arena_.copy(from.data)};
    if (from.key == AttributeKey::kCalled) {
      for (const int64_t callee : from.ints) {
        int32_t& closed = computations_[static_cast<size_t>(callee)].closed;
        closed = closed < 0 ? closed_count_++ : closed;
        int32_t& depth = computations_[static_cast<size_t>(candidate.computation)].depth;
        depth = std::max(depth, computation(static_cast<ComputationId>(callee)).depth + 1);
      }
    }
  }
  made.attributes = attributes;
  instructions_.push_back(made);
  computations_[static_cast<size_t>(candidate.computation)].instructions.push_back(id);
  return id;
}

Status Graph::set_root(ComputationId computation_id, ValueId value) {
  if (computation_id < 0 || static_cast<size_t>(computation_id) >= computations_.size()) {
    return invalid(format("root: computation {}: expected one of [0, {})", computation_id,
                          computations_.size()));
  }
  Computation& target = computations_[static_cast<size_t>(computation_id)];
  if (target.closed >= 0) {
    return invalid(
        format("root: computation {} ('{}') is called already", computation_id, target.name));
  }
  if (value < 0 || static_cast<size_t>(value) >= instructions_.size() ||
      (*this)[value].computation != computation_id) {
    return invalid(format("root of computation {} ('{}'): value {} is not one of its operations",
                          computation_id, target.name, value));
  }
  target.root = value;
  return ok_status();
}

Status Graph::set_input_name(int32_t parameter, std::string_view name) {
  return set_name(input_names_, "input", parameter, name);
}

Status Graph::set_output_name(int32_t output, std::string_view name) {
  return set_name(output_names_, "output", output, name);
}

Status Graph::set_alias(int32_t output, int32_t parameter) {
  if (output < 0 || output >= kMaxParameters || parameter < 0 || parameter >= kMaxParameters) {
    return invalid(format("alias of output {} and parameter {}: expected numbers in [0, {})",
                          output, parameter, kMaxParameters));
  }
  for (const Alias& alias : aliases_) {
    if (alias.output == output || alias.parameter == parameter) {
      return invalid(
          format("alias of output {} and parameter {}: output {} and parameter {} are "
                 "aliased already",
                 output, parameter, alias.output, alias.parameter));
    }
  }
  aliases_.push_back({output, parameter});
  return ok_status();
}

std::string Graph::label(ValueId value) const {
  const Instruction& instruction = (*this)[value];
  return make_label(instruction.opcode, instruction.attributes, value);
}

std::string describe(const Graph& graph, const Candidate& candidate) {
  return described(candidate.opcode, make_label(candidate.opcode, candidate.attributes,
                                                static_cast<ValueId>(graph.size())));
}

std::string describe(const Graph& graph, ValueId value) {
  return described(graph[value].opcode, graph.label(value));
}

}  // namespace onrt::hir
