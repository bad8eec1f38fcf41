// SPDX-License-Identifier: Apache-2.0
// Small HLO modules for tests.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "compiler/api/graph_handle.h"
#include "compiler/hir/text.h"
#include "compiler/hlo/hlo.pb.h"
#include "compiler/hlo/import.h"
#include "opennrt/nrtcc.h"

namespace onrt::hlo {

inline opennrt::hlo::Shape shape_of(nrtcc_dtype_t type, std::initializer_list<int64_t> dims) {
  opennrt::hlo::Shape shape;
  shape.set_element_type(static_cast<uint32_t>(type));
  for (const int64_t dimension : dims) {
    shape.add_dimensions(dimension);
  }
  return shape;
}

// Ids are as XLA makes them today: computation number in the upper half. A module under
// construction has one computation, "main", whose root is the instruction added last.
class ModuleBuilder {
 public:
  ModuleBuilder() {
    module_.set_name("m");
    module_.set_entry_computation_name("main");
    module_.set_entry_computation_id(7);
    start("main", 7);
  }

  // Further instructions go to this new computation.
  void start(const std::string& name, int64_t id) {
    computation_ = module_.add_computations();
    computation_->set_name(name);
    computation_->set_id(id);
  }

  opennrt::hlo::Instruction& add(const std::string& opcode, const opennrt::hlo::Shape& shape,
                                 std::initializer_list<int64_t> operands = {}) {
    const int64_t id = (computation_->id() << 32) + computation_->instructions_size() + 1;
    opennrt::hlo::Instruction* instruction = computation_->add_instructions();
    instruction->set_name(opcode + "." + std::to_string(computation_->instructions_size()));
    instruction->set_opcode(opcode);
    *instruction->mutable_shape() = shape;
    instruction->set_id(id);
    for (const int64_t operand : operands) {
      instruction->add_operand_ids(operand);
    }
    computation_->set_root_id(id);
    return *instruction;
  }

  int64_t parameter(int64_t number, const opennrt::hlo::Shape& shape) {
    opennrt::hlo::Instruction& instruction = add("parameter", shape);
    instruction.set_parameter_number(number);
    return instruction.id();
  }

  opennrt::hlo::Module& module() { return module_; }
  opennrt::hlo::Computation& computation() { return *computation_; }

 private:
  opennrt::hlo::Module module_;
  opennrt::hlo::Computation* computation_ = nullptr;
};

// The graph of a module that must be accepted.
inline GraphPtr import_ok(const opennrt::hlo::Module& module) {
  auto graph = import_module(module);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? std::move(graph).value() : nullptr;
}

// Why a module is refused.
inline std::string import_error(const opennrt::hlo::Module& module) {
  const auto graph = import_module(module);
  EXPECT_FALSE(graph.ok());
  return std::string(graph.status().message());
}

}  // namespace onrt::hlo
