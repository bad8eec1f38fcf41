// SPDX-License-Identifier: Apache-2.0
// Random modules for another implementation to run, with our results:
//   random_hlo FAMILY FIRST COUNT
// Families: plain, products, indexed, ordered, control. Graph after graph goes to stdout as one
// record, all numbers little-endian u64:
//   seed; the module's bytes; count of parameters, bytes of each; count of results, for each the
//   name of its operation, count and parameter numbers of the operation's arrays, and its bytes.
// Bytes have their size in front. In the module every operation of the entry has parameters as
// operands, which hold what our program gives in its place: so a difference belongs to one
// operation, and none is carried on. Parameters and results have the module's shapes.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/api/graph_handle.h"
#include "compiler/hlo/export.h"
#include "compiler/hlo/import.h"
#include "compiler/testing/random_graph.h"
#include "opennrt/nrtcc.h"

namespace onrt::hlo {
namespace {

using opennrt::hlo::Computation;
using opennrt::hlo::Instruction;
using opennrt::hlo::Module;
using opennrt::hlo::Shape;
using testing::Bytes;

[[noreturn]] void fail(uint64_t seed, const std::string& text) {
  std::fprintf(stderr, "random_hlo: seed %llu: %s\n", static_cast<unsigned long long>(seed),
               text.c_str());
  std::exit(1);
}

bool is_array(const Instruction& instruction) {
  return instruction.shape().element_type() != NRTCC_TUPLE;
}

bool has_elements(const Shape& shape) {
  return std::ranges::none_of(shape.dimensions(), [](int64_t dim) { return dim == 0; });
}

Computation& entry_of(Module& module) { return *module.mutable_computations()->rbegin(); }

int64_t free_id(const Module& module) {
  int64_t id = 0;
  for (const Computation& computation : module.computations()) {
    for (const Instruction& instruction : computation.instructions()) {
      id = std::max(id, instruction.id());
    }
  }
  return id + 1;
}

// A tuple of these instructions becomes the root.
void set_results(Module& module, const std::vector<int64_t>& ids,
                 const std::vector<Shape>& shapes) {
  Computation& entry = entry_of(module);
  Instruction root;
  root.set_id(free_id(module));
  root.set_name("all");
  root.set_opcode("tuple");
  root.mutable_shape()->set_element_type(NRTCC_TUPLE);
  for (size_t i = 0; i < ids.size(); ++i) {
    root.add_operand_ids(ids[i]);
    *root.mutable_shape()->add_tuple_shapes() = shapes[i];
  }
  *entry.add_instructions() = root;
  entry.set_root_id(root.id());
  *entry.mutable_program_shape()->mutable_result() = root.shape();
  *module.mutable_host_program_shape() = entry.program_shape();
  module.clear_input_output_alias();
}

// What operations of the entry give, parameters aside.
std::vector<const Instruction*> operations(const Module& module) {
  std::vector<const Instruction*> made;
  for (const Instruction& instruction : module.computations().rbegin()->instructions()) {
    if (is_array(instruction) && instruction.opcode() != "parameter") {
      made.push_back(&instruction);
    }
  }
  return made;
}

// The module with all of `operations` as results, compiled and run.
std::vector<Bytes> run_all(const Module& module, const std::vector<Bytes>& inputs, uint64_t seed) {
  Module all = module;
  std::vector<int64_t> ids;
  std::vector<Shape> shapes;
  for (const Instruction* operation : operations(module)) {
    ids.push_back(operation->id());
    shapes.push_back(operation->shape());
  }
  set_results(all, ids, shapes);
  const auto graph = import_module(all);
  if (!graph.ok()) {
    fail(seed, std::string(graph.status().message()));
  }
  auto found = testing::run_graph((*graph)->graph, inputs, {});
  if (!found.ok()) {
    fail(seed, std::string(found.status().message()));
  }
  std::vector<Bytes> results;
  size_t next = 0;
  for (const Shape& shape : shapes) {
    results.push_back(has_elements(shape) ? std::move((*found)[next++]) : Bytes());
  }
  return results;
}

// Cuts the module between its operations.
class Cutter {
 public:
  Cutter(const Module& module, const std::vector<Bytes>& inputs, const std::vector<Bytes>& results)
      : module_(module), next_id_(free_id(module)) {
    for (const Instruction& instruction : module.computations().rbegin()->instructions()) {
      if (instruction.opcode() == "parameter") {
        values_[instruction.id()] = &inputs[static_cast<size_t>(instruction.parameter_number())];
      }
    }
    const auto all = operations(module);
    for (size_t i = 0; i < all.size(); ++i) {
      values_[all[i]->id()] = &results[i];
    }
  }

  Module run() {
    Computation& entry = entry_of(module_);
    const Computation original = entry;
    entry.clear_instructions();
    entry.mutable_program_shape()->Clear();
    std::unordered_map<int64_t, const Instruction*> by_id;
    std::vector<int64_t> ids;
    std::vector<Shape> shapes;
    for (const Instruction& instruction : original.instructions()) {
      by_id[instruction.id()] = &instruction;
      if (instruction.opcode() == "parameter" || instruction.opcode() == "constant" ||
          instruction.id() == original.root_id()) {
        continue;
      }
      Instruction made = instruction;
      for (int64_t& id : *made.mutable_operand_ids()) {
        id = operand(*by_id.at(id), entry);
      }
      *entry.add_instructions() = made;
      if (is_array(made)) {
        ids.push_back(made.id());
        shapes.push_back(made.shape());
      }
    }
    set_results(module_, ids, shapes);
    return module_;
  }

  // By parameter number.
  const std::vector<const Bytes*>& parameters() const { return parameters_; }
  // The parameter that stands for an instruction of the module before.
  size_t number_of(int64_t id) const { return numbers_.at(id); }

 private:
  // A parameter in the place of an array.
  int64_t operand(const Instruction& from, Computation& entry) {
    if (!is_array(from)) {
      return from.id();
    }
    const auto [known, is_new] = replaced_.try_emplace(from.id(), next_id_);
    if (is_new) {
      Instruction& made = *entry.add_instructions();
      made.set_id(next_id_++);
      made.set_name("in" + std::to_string(parameters_.size()));
      made.set_opcode("parameter");
      made.set_parameter_number(static_cast<int64_t>(parameters_.size()));
      *made.mutable_shape() = from.shape();
      *entry.mutable_program_shape()->add_parameters() = from.shape();
      entry.mutable_program_shape()->add_parameter_names(made.name());
      numbers_[from.id()] = parameters_.size();
      parameters_.push_back(values_.at(from.id()));
    }
    return known->second;
  }

  Module module_;
  int64_t next_id_;
  std::unordered_map<int64_t, const Bytes*> values_;
  std::unordered_map<int64_t, int64_t> replaced_;
  std::unordered_map<int64_t, size_t> numbers_;
  std::vector<const Bytes*> parameters_;
};

void put(uint64_t number) { std::fwrite(&number, sizeof number, 1, stdout); }
void put(const void* data, size_t size) {
  put(size);
  std::fwrite(data, 1, size, stdout);
}

using ById = std::unordered_map<int64_t, const Instruction*>;

// The operation that an element of a tuple comes from.
const Instruction& source_of(const ById& by_id, const Instruction& operation) {
  const Instruction* found = &operation;
  while (found->opcode() == "get-tuple-element") {
    found = by_id.at(found->operand_ids(0));
  }
  return *found;
}

void write_result(const ById& by_id, const Cutter& cutter, const Instruction& operation,
                  const Bytes& value) {
  const Instruction& source = source_of(by_id, operation);
  put(source.opcode().data(), source.opcode().size());
  std::vector<uint64_t> numbers;
  for (const int64_t id : source.operand_ids()) {
    if (is_array(*by_id.at(id))) {
      numbers.push_back(cutter.number_of(id));
    }
  }
  put(numbers.size());
  for (const uint64_t number : numbers) {
    put(number);
  }
  put(value.data(), value.size());
}

void write_case(uint64_t seed, const testing::RandomOptions& options) {
  const testing::RandomCase random_case = testing::make_random_case(seed, options);
  const auto module = export_graph(*random_case.graph);
  if (!module.ok()) {
    fail(seed, std::string(module.status().message()));
  }
  const std::vector<Bytes> results = run_all(*module, random_case.inputs, seed);
  Cutter cutter(*module, random_case.inputs, results);
  const std::string bytes = cutter.run().SerializeAsString();
  put(seed);
  put(bytes.data(), bytes.size());
  put(cutter.parameters().size());
  for (const Bytes* value : cutter.parameters()) {
    put(value->data(), value->size());
  }
  ById by_id;
  for (const Instruction& instruction : module->computations().rbegin()->instructions()) {
    by_id[instruction.id()] = &instruction;
  }
  const auto all = operations(*module);
  const auto is_compared = [](const Instruction* each) { return each->opcode() != "constant"; };
  put(static_cast<uint64_t>(std::ranges::count_if(all, is_compared)));
  for (size_t i = 0; i < all.size(); ++i) {
    if (is_compared(all[i])) {
      write_result(by_id, cutter, *all[i], results[i]);
    }
  }
}

struct Family {
  std::string name;
  testing::RandomOptions options;
};

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies = {
      {"plain", {14, false, false, false, false, true, false}},
      {"products", {12, true, false, false, false, true, false}},
      {"indexed", {12, false, true, false, false, true, false}},
      {"ordered", {10, false, false, false, true, true, false}},
      // What runs inside of a loop is not cut, so it has to be exact.
      {"control", {10, false, true, true, false, true, true}},
  };
  return kFamilies;
}

}  // namespace
}  // namespace onrt::hlo

int main(int argc, char** argv) {
  const auto& families = onrt::hlo::families();
  const auto family =
      argc == 4 ? std::ranges::find(families, std::string(argv[1]), &onrt::hlo::Family::name)
                : families.end();
  if (family == families.end()) {
    std::fprintf(stderr, "usage: %s plain|products|indexed|ordered|control FIRST COUNT\n", argv[0]);
    return 2;
  }
  const uint64_t first = std::strtoull(argv[2], nullptr, 10);
  const uint64_t count = std::strtoull(argv[3], nullptr, 10);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    onrt::hlo::write_case(seed, family->options);
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
