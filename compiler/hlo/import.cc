// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/import.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/hlo/attributes.h"
#include "compiler/hlo/location.h"
#include "compiler/hlo/order.h"
#include "compiler/hlo/shape.h"
#include "runtime/base/format.h"

namespace onrt::hlo {
namespace {

using opennrt::hlo::Computation;
using opennrt::hlo::Instruction;
using opennrt::hlo::Module;

// Position by id. Ordered, since ids are hostile and a hash of them could be made to collide.
using PositionById = std::map<int64_t, int32_t>;

// Opcodes that do something even when no result depends on them.
bool has_effect(const Instruction& instruction) {
  constexpr std::array<std::string_view, 7> kEffects = {
      "infeed", "outfeed", "send", "recv", "send-done", "recv-done", "collective-permute-start"};
  if (instruction.opcode() == "custom-call") {
    return instruction.custom_call_has_side_effect();
  }
  return std::find(kEffects.begin(), kEffects.end(), instruction.opcode()) != kEffects.end();
}

Status from_nrtcc(nrtcc_status_t status, const std::string& where) {
  if (status == NRTCC_OK) {
    return ok_status();
  }
  const std::string text = where + ": " + nrtcc_last_error();
  switch (status) {
    case NRTCC_UNSUPPORTED:
      return unsupported(text);
    case NRTCC_NO_MEMORY:
      return Status(NRT_RESOURCE, text);
    case NRTCC_INTERNAL:
      return Status(NRT_FAILURE, text);
    default:
      return malformed(text);
  }
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    if (end == text.size()) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

const std::string* frontend_attribute(const Instruction& instruction, std::string_view key) {
  for (const auto& pair : instruction.frontend_attributes().map()) {
    if (pair.key() == key) {
      return &pair.value();
    }
  }
  return nullptr;
}

// One import: builds the graph from the module. Thread-compatible.
class Importer {
 public:
  explicit Importer(const Module& module) : module_(module) {}

  Result<GraphPtr> run();

 private:
  Status index_computations();
  Status find_entry();
  Result<Order> order_computations() const;
  Status import_computation(const Computation& computation, nrtcc_computation_t number);
  Result<Order> order_instructions(const Computation& computation, PositionById& positions) const;
  Status import_instruction(const Computation& computation, const Instruction& instruction,
                            nrtcc_computation_t number);
  Status check_entry(const Instruction& root) const;
  Status check_parameters() const;
  Status name_tensors(const Instruction& root);
  Status set_aliases(const Instruction& root);

  const Computation& entry() const { return module_.computations(entry_); }
  const Instruction& root_of(const Computation& computation) const;

  const Module& module_;
  GraphPtr graph_;
  int entry_ = 0;
  PositionById computation_positions_;
  std::vector<nrtcc_computation_t> numbers_;  // of imported computations, by position; -1: not yet
  std::map<int64_t, nrtcc_value_t> values_;   // of the computation in hand, by id
};

Status Importer::index_computations() {
  if (module_.computations_size() == 0) {
    return malformed(locate(module_) + ": no computations");
  }
  for (int i = 0; i < module_.computations_size(); ++i) {
    if (!computation_positions_.emplace(module_.computations(i).id(), i).second) {
      return malformed(format("{}: a second computation has id {}",
                              locate(module_, module_.computations(i)),
                              module_.computations(i).id()));
    }
  }
  numbers_.assign(static_cast<size_t>(module_.computations_size()), -1);
  return ok_status();
}

// By id; id 0 is also what an absent field reads as, so then the name decides.
Status Importer::find_entry() {
  const auto found = computation_positions_.find(module_.entry_computation_id());
  if (found != computation_positions_.end() && module_.entry_computation_id() != 0) {
    entry_ = found->second;
    return ok_status();
  }
  for (int i = 0; i < module_.computations_size(); ++i) {
    if (module_.computations(i).name() == module_.entry_computation_name()) {
      entry_ = i;
      return ok_status();
    }
  }
  if (found != computation_positions_.end()) {
    entry_ = found->second;
    return ok_status();
  }
  return malformed(format("{}: entry computation '{}' (id {}) is not in the module",
                          locate(module_), printable(module_.entry_computation_name()),
                          module_.entry_computation_id()));
}

Result<Order> Importer::order_computations() const {
  std::vector<std::vector<int32_t>> needs(static_cast<size_t>(module_.computations_size()));
  for (int i = 0; i < module_.computations_size(); ++i) {
    const Computation& computation = module_.computations(i);
    for (const Instruction& instruction : computation.instructions()) {
      for (const int64_t id : instruction.called_computation_ids()) {
        const auto called = computation_positions_.find(id);
        if (called == computation_positions_.end()) {
          return malformed(format("{}: called computation {} is not in the module",
                                  locate(module_, computation, instruction), id));
        }
        needs[static_cast<size_t>(i)].push_back(called->second);
      }
    }
  }
  Order order = order_from(std::array{entry_}, needs);
  if (order.cycle >= 0) {
    return malformed(
        format("{}: calls itself", locate(module_, module_.computations(order.cycle))));
  }
  return order;
}

Result<Order> Importer::order_instructions(const Computation& computation,
                                           PositionById& positions) const {
  const int count = computation.instructions_size();
  for (int i = 0; i < count; ++i) {
    const Instruction& instruction = computation.instructions(i);
    if (!positions.emplace(instruction.id(), i).second) {
      return malformed(format("{}: a second instruction has id {}",
                              locate(module_, computation, instruction), instruction.id()));
    }
  }
  std::vector<std::vector<int32_t>> needs(static_cast<size_t>(count));
  std::vector<int32_t> roots;
  for (int i = 0; i < count; ++i) {
    const Instruction& instruction = computation.instructions(i);
    for (const int64_t id : instruction.operand_ids()) {
      const auto operand = positions.find(id);
      if (operand == positions.end()) {
        return malformed(format("{}: operand {} is not in this computation",
                                locate(module_, computation, instruction), id));
      }
      needs[static_cast<size_t>(i)].push_back(operand->second);
    }
    if (instruction.opcode() == "parameter" || has_effect(instruction)) {
      roots.push_back(i);
    }
  }
  const auto root = positions.find(computation.root_id());
  if (root == positions.end()) {
    return malformed(format("{}: root {} is not among its {} instructions",
                            locate(module_, computation), computation.root_id(), count));
  }
  roots.push_back(root->second);
  Order order = order_from(roots, needs);
  if (order.cycle >= 0) {
    return malformed(format("{}: depends on itself",
                            locate(module_, computation, computation.instructions(order.cycle))));
  }
  return order;
}

Status Importer::import_instruction(const Computation& computation, const Instruction& instruction,
                                    nrtcc_computation_t number) {
  const int32_t opcode = nrtcc_opcode(instruction.opcode().c_str());
  if (opcode < 0) {
    return unsupported(locate(module_, computation, instruction) + ": no such HLO opcode");
  }
  std::vector<nrtcc_value_t> operands;
  for (const int64_t id : instruction.operand_ids()) {
    operands.push_back(values_.at(id));
  }
  auto shape = ShapeView::create(instruction.shape());
  if (!shape.ok()) {
    return std::move(shape).status().annotate(locate(module_, computation, instruction));
  }
  const auto lookup = [this](int64_t id) {
    return numbers_[static_cast<size_t>(computation_positions_.at(id))];
  };
  AttributeList attributes;
  if (Status status = add_attributes(instruction, lookup, attributes); !status.ok()) {
    return std::move(status).annotate(locate(module_, computation, instruction));
  }
  nrtcc_value_t value = 0;
  const nrtcc_status_t status =
      nrtcc_op(graph_.get(), number, opcode, operands.data(), static_cast<int32_t>(operands.size()),
               shape->get(), attributes.data(), attributes.size(), &value);
  if (status != NRTCC_OK) {
    return from_nrtcc(status, locate(module_, computation, instruction));
  }
  values_[instruction.id()] = value;
  return ok_status();
}

Status Importer::import_computation(const Computation& computation, nrtcc_computation_t number) {
  PositionById positions;
  ONRT_ASSIGN_OR_RETURN(const Order order, order_instructions(computation, positions));
  values_.clear();
  for (const int32_t position : order.nodes) {
    ONRT_RETURN_IF_ERROR(
        import_instruction(computation, computation.instructions(position), number));
  }
  return from_nrtcc(nrtcc_set_root(graph_.get(), number, values_.at(computation.root_id())),
                    locate(module_, computation));
}

const Instruction& Importer::root_of(const Computation& computation) const {
  const auto& instructions = computation.instructions();
  return *std::find_if(instructions.begin(), instructions.end(),
                       [&](const Instruction& each) { return each.id() == computation.root_id(); });
}

Status Importer::check_parameters() const {
  std::vector<bool> seen;
  for (const Instruction& instruction : entry().instructions()) {
    if (instruction.opcode() != "parameter") {
      continue;
    }
    const std::string where = locate(module_, entry(), instruction);
    const int64_t number = instruction.parameter_number();
    if (number < 0 || number >= entry().instructions_size()) {
      return malformed(format("{}: parameter number {} is impossible", where, number));
    }
    if (instruction.shape().element_type() == NRTCC_TUPLE) {
      return unsupported(where +
                         ": parameters of tuple shape are not supported; pass each array "
                         "as a parameter of its own");
    }
    if (!is_row_major(instruction.shape())) {
      return unsupported(format("{}: parameter {} of shape {} is not row-major; NEFF tensors are",
                                where, number, shape_text(instruction.shape())));
    }
    seen.resize(std::max(seen.size(), static_cast<size_t>(number) + 1));
    if (seen[static_cast<size_t>(number)]) {
      return malformed(format("{}: a second parameter {}", where, number));
    }
    seen[static_cast<size_t>(number)] = true;
  }
  const auto gap = std::find(seen.begin(), seen.end(), false);
  if (gap != seen.end()) {
    return malformed(
        format("{}: parameter {} is missing", locate(module_, entry()), gap - seen.begin()));
  }
  for (int i = 0; i < module_.host_program_shape().parameters_size(); ++i) {
    if (!is_row_major(module_.host_program_shape().parameters(i))) {
      return unsupported(format("{}: layout of parameter {} is not row-major; NEFF tensors are",
                                locate(module_), i));
    }
  }
  return ok_status();
}

Status Importer::check_entry(const Instruction& root) const {
  for (const auto& element : root.shape().tuple_shapes()) {
    if (element.element_type() == NRTCC_TUPLE) {
      return unsupported(locate(module_, entry(), root) +
                         ": results of nested tuple shape are not supported");
    }
  }
  return check_parameters();
}

Status Importer::name_tensors(const Instruction& root) {
  for (const Instruction& instruction : entry().instructions()) {
    const std::string* name = frontend_attribute(instruction, "neff_input_names");
    if (instruction.opcode() == "parameter" && name != nullptr) {
      ONRT_RETURN_IF_ERROR(from_nrtcc(
          nrtcc_set_input_name(graph_.get(), static_cast<int32_t>(instruction.parameter_number()),
                               name->c_str()),
          locate(module_, entry(), instruction)));
    }
  }
  const std::string* joined = frontend_attribute(root, "neff_output_names");
  if (joined == nullptr) {
    return ok_status();
  }
  const std::string where = locate(module_, entry(), root);
  const std::vector<std::string> names = split(*joined, ',');
  const bool is_tuple = root.shape().element_type() == NRTCC_TUPLE;
  const auto outputs = static_cast<size_t>(is_tuple ? root.shape().tuple_shapes_size() : 1);
  if (names.size() != outputs) {
    return malformed(
        format("{}: neff_output_names has {} names for {} results", where, names.size(), outputs));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    ONRT_RETURN_IF_ERROR(from_nrtcc(
        nrtcc_set_output_name(graph_.get(), static_cast<int32_t>(i), names[i].c_str()), where));
  }
  return ok_status();
}

Status Importer::set_aliases(const Instruction& root) {
  const bool is_tuple = root.shape().element_type() == NRTCC_TUPLE;
  for (const auto& entry : module_.input_output_alias().entries()) {
    const std::string where = locate(module_) + ", input_output_alias";
    if (entry.parameter_shape_index_size() != 0 ||
        entry.output_shape_index_size() != (is_tuple ? 1 : 0)) {
      return malformed(format("{}: parameter {} and its result do not name one array each", where,
                              entry.parameter_number()));
    }
    const int64_t output = is_tuple ? entry.output_shape_index(0) : 0;
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (output < 0 || output > kMost || entry.parameter_number() < 0 ||
        entry.parameter_number() > kMost) {
      return malformed(format("{}: result {} with parameter {} is impossible", where, output,
                              entry.parameter_number()));
    }
    ONRT_RETURN_IF_ERROR(from_nrtcc(nrtcc_set_alias(graph_.get(), static_cast<int32_t>(output),
                                                    static_cast<int32_t>(entry.parameter_number())),
                                    where));
  }
  return ok_status();
}

Result<GraphPtr> Importer::run() {
  ONRT_RETURN_IF_ERROR(index_computations());
  ONRT_RETURN_IF_ERROR(find_entry());
  nrtcc_graph_t* graph = nullptr;
  ONRT_RETURN_IF_ERROR(
      from_nrtcc(nrtcc_graph_create(printable(module_.name()).c_str(), &graph), locate(module_)));
  graph_.reset(graph);
  ONRT_ASSIGN_OR_RETURN(const Order order, order_computations());
  for (const int32_t position : order.nodes) {
    const Computation& computation = module_.computations(position);
    nrtcc_computation_t number = 0;
    if (position != entry_) {
      ONRT_RETURN_IF_ERROR(from_nrtcc(
          nrtcc_computation(graph_.get(), printable(computation.name()).c_str(), &number),
          locate(module_, computation)));
    }
    ONRT_RETURN_IF_ERROR(import_computation(computation, number));
    numbers_[static_cast<size_t>(position)] = number;
  }
  const Instruction& root = root_of(entry());
  ONRT_RETURN_IF_ERROR(check_entry(root));
  ONRT_RETURN_IF_ERROR(name_tensors(root));
  ONRT_RETURN_IF_ERROR(set_aliases(root));
  return std::move(graph_);
}

}  // namespace

namespace {

// What a file that is no serialized module looks like; "" if like nothing we know.
std::string_view other_format(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("HloModule")) {
    return "this is HLO text";
  }
  if (text.starts_with("ML\xefR")) {
    return "this is MLIR bytecode";
  }
  if (text.starts_with("module") || text.starts_with("#loc") || text.starts_with("func.func")) {
    return "this looks like MLIR text";
  }
  return "";
}

Status no_module(std::string_view why) {
  return malformed(
      format("not a serialized HloModuleProto ({}); JAX writes one by "
             "jax.jit(f).lower(x).compiler_ir(\"hlo\").as_serialized_hlo_module_proto()",
             why));
}

}  // namespace

Result<opennrt::hlo::Module> parse_module(std::span<const std::byte> file) {
  if (file.empty()) {
    return malformed("the file is empty; expected a serialized HloModuleProto");
  }
  constexpr size_t kLargest = std::numeric_limits<int>::max();
  if (file.size() > kLargest) {
    return malformed(format("the file has {} bytes; a serialized HloModuleProto has at most {}",
                            file.size(), kLargest));
  }
  if (const std::string_view other = other_format(file); !other.empty()) {
    return no_module(other);
  }
  Module module;
  if (!module.ParseFromArray(file.data(), static_cast<int>(file.size()))) {
    return no_module("protobuf refuses the bytes");
  }
  return module;
}

Result<GraphPtr> import_module(const opennrt::hlo::Module& module) {
  return Importer(module).run();
}

}  // namespace onrt::hlo
