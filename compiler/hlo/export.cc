// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/export.h"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/hir/text.h"
#include "compiler/hlo/export_attributes.h"
#include "compiler/hlo/location.h"
#include "opennrt/nrtcc.h"

namespace onrt::hlo {
namespace {

int64_t instruction_id(hir::ValueId value) { return int64_t{value} + 1; }

void put_shape(const hir::Graph& graph, hir::ShapeId id, opennrt::hlo::Shape& out) {
  const hir::Shape& shape = graph.shapes()[id];
  switch (shape.kind) {
    case hir::ShapeKind::kToken:
      out.set_element_type(NRTCC_TOKEN);
      return;
    case hir::ShapeKind::kTuple:
      out.set_element_type(NRTCC_TUPLE);
      for (const hir::ShapeId element : shape.elements) {
        put_shape(graph, element, *out.add_tuple_shapes());
      }
      return;
    case hir::ShapeKind::kArray:
      break;
  }
  out.set_element_type(static_cast<uint32_t>(shape.dtype));
  out.mutable_layout();
  for (size_t i = 0; i < shape.rank(); ++i) {
    out.add_dimensions(shape.dims[i]);
    out.add_is_dynamic_dimension(false);
    out.mutable_layout()->add_minor_to_major(static_cast<int64_t>(shape.rank() - 1 - i));
  }
}

// Gives every instruction and computation a name of its own, as XLA's loader wants.
class Names {
 public:
  explicit Names(const hir::Graph& graph) {
    for (size_t i = 0; i < graph.size(); ++i) {
      instructions_.push_back(unique(graph.label(static_cast<hir::ValueId>(i))));
    }
    for (size_t i = 0; i < graph.computation_count(); ++i) {
      const auto id = static_cast<hir::ComputationId>(i);
      computations_.push_back(unique(std::string(graph.computation(id).name)));
    }
  }

  const std::string& of_instruction(hir::ValueId value) const {
    return instructions_[static_cast<size_t>(value)];
  }
  const std::string& of_computation(hir::ComputationId id) const {
    return computations_[static_cast<size_t>(id)];
  }

 private:
  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (size_t n = used_.size(); !used_.insert(name).second; ++n) {
      name = wanted + "." + std::to_string(n);
    }
    return name;
  }

  std::set<std::string> used_;
  std::vector<std::string> instructions_;
  std::vector<std::string> computations_;
};

Status put_instruction(const hir::Graph& graph, const Names& names, hir::ValueId value,
                       opennrt::hlo::Instruction& out) {
  const hir::Instruction& instruction = graph[value];
  out.set_name(names.of_instruction(value));
  out.set_opcode(std::string(hir::opcode_name(instruction.opcode)));
  put_shape(graph, instruction.shape, *out.mutable_shape());
  out.set_id(instruction_id(value));
  for (const hir::ValueId operand : instruction.operands) {
    out.add_operand_ids(instruction_id(operand));
  }
  ONRT_RETURN_IF_ERROR(export_attributes(instruction, out));
  // Integers have one order; XLA has a name of its own for it and refuses this one.
  if (instruction.opcode == hir::Opcode::kCompare &&
      !is_floating(graph.shape_of(instruction.operands[0]).dtype)) {
    out.clear_comparison_type();
  }
  return ok_status();
}

void put_program_shape(const hir::Graph& graph, const Names& names,
                       const hir::Computation& computation, opennrt::hlo::ProgramShape& out) {
  for (const hir::ValueId parameter : computation.parameters) {
    put_shape(graph, graph[parameter].shape, *out.add_parameters());
    out.add_parameter_names(names.of_instruction(parameter));
  }
  put_shape(graph, graph[computation.root].shape, *out.mutable_result());
}

Status put_computation(const hir::Graph& graph, const Names& names, hir::ComputationId id,
                       opennrt::hlo::Computation& out) {
  const hir::Computation& computation = graph.computation(id);
  out.set_name(names.of_computation(id));
  out.set_id(exported_id(id));
  out.set_root_id(instruction_id(computation.root));
  put_program_shape(graph, names, computation, *out.mutable_program_shape());
  for (const hir::ValueId value : computation.instructions) {
    ONRT_RETURN_IF_ERROR(put_instruction(graph, names, value, *out.add_instructions()));
  }
  return ok_status();
}

void put_frontend_attribute(const char* key, std::string value, opennrt::hlo::Instruction& out) {
  opennrt::hlo::TextPair* pair = out.mutable_frontend_attributes()->add_map();
  pair->set_key(key);
  pair->set_value(std::move(value));
}

void put_names(const hir::Graph& graph, opennrt::hlo::Computation& entry) {
  const auto name_of = [](const std::vector<std::string>& names, size_t i) {
    return i < names.size() ? names[i] : std::string();
  };
  const bool any_output = std::any_of(graph.output_names().begin(), graph.output_names().end(),
                                      [](const std::string& name) { return !name.empty(); });
  for (auto& instruction : *entry.mutable_instructions()) {
    if (instruction.opcode() == "parameter") {
      const auto number = static_cast<size_t>(instruction.parameter_number());
      if (std::string name = name_of(graph.input_names(), number); !name.empty()) {
        put_frontend_attribute("neff_input_names", std::move(name), instruction);
      }
    }
    if (instruction.id() == entry.root_id() && any_output) {
      const bool tuple = instruction.shape().element_type() == NRTCC_TUPLE;
      const int outputs = tuple ? instruction.shape().tuple_shapes_size() : 1;
      std::string joined;
      for (int i = 0; i < outputs; ++i) {
        const std::string name = name_of(graph.output_names(), static_cast<size_t>(i));
        joined += (i == 0 ? "" : ",") + (name.empty() ? "output" + std::to_string(i) : name);
      }
      put_frontend_attribute("neff_output_names", std::move(joined), instruction);
    }
  }
}

void put_aliases(const hir::Graph& graph, opennrt::hlo::Module& out) {
  const hir::Shape& result = graph.shape_of(graph.computation(hir::kEntry).root);
  for (const hir::Alias& alias : graph.aliases()) {
    auto* entry = out.mutable_input_output_alias()->add_entries();
    if (result.is_tuple()) {
      entry->add_output_shape_index(alias.output);
    }
    entry->set_parameter_number(alias.parameter);
    entry->set_kind(1);  // may alias
  }
}

// Computations that are called come before their callers; the entry is last.
std::vector<hir::ComputationId> computation_order(const hir::Graph& graph) {
  std::vector<hir::ComputationId> order;
  for (hir::ComputationId id = 1; id < static_cast<hir::ComputationId>(graph.computation_count());
       ++id) {
    if (graph.computation(id).closed >= 0) {
      order.push_back(id);
    }
  }
  std::sort(order.begin(), order.end(), [&](hir::ComputationId a, hir::ComputationId b) {
    return graph.computation(a).closed < graph.computation(b).closed;
  });
  order.push_back(hir::kEntry);
  return order;
}

}  // namespace

Result<opennrt::hlo::Module> export_graph(const hir::Graph& graph) {
  ONRT_RETURN_IF_ERROR(hir::verify(graph));
  opennrt::hlo::Module module;
  module.set_name(graph.name());
  const Names names(graph);
  for (const hir::ComputationId id : computation_order(graph)) {
    ONRT_RETURN_IF_ERROR(put_computation(graph, names, id, *module.add_computations()));
  }
  opennrt::hlo::Computation& entry = *module.mutable_computations()->rbegin();
  module.set_id(1);
  module.set_entry_computation_id(entry.id());
  module.set_entry_computation_name(entry.name());
  put_program_shape(graph, names, graph.computation(hir::kEntry),
                    *module.mutable_host_program_shape());
  put_names(graph, entry);
  put_aliases(graph, module);
  return module;
}

Result<std::string> export_text(std::string_view text) {
  ONRT_ASSIGN_OR_RETURN(const auto graph, hir::parse(text));
  ONRT_ASSIGN_OR_RETURN(const opennrt::hlo::Module module, export_graph(*graph));
  std::string bytes;
  if (!module.SerializeToString(&bytes)) {
    return malformed("the module does not fit in a protobuf message (2 GiB)");
  }
  return bytes;
}

std::vector<std::string> supported_opcodes() {
  std::vector<std::string> names;
  for (int i = 0; i < hir::kOpcodes; ++i) {
    const hir::OpcodeInfo& info = hir::opcode_info(static_cast<hir::Opcode>(i));
    if (info.refusal.empty()) {
      names.emplace_back(info.name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace onrt::hlo
