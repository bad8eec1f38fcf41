// SPDX-License-Identifier: Apache-2.0
// HIR: a graph of HLO operations in SSA form. Operations are only ever appended and an operand
// must exist already, so a graph has no cycles; a computation that is called is closed by the call,
// so computations call only older ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/hir/arena.h"
#include "compiler/hir/attribute.h"
#include "compiler/hir/opcode.h"
#include "compiler/hir/shape.h"
#include "runtime/base/status.h"

namespace onrt::hir {

using ValueId = int32_t;
using ComputationId = int32_t;

inline constexpr ComputationId kEntry = 0;
inline constexpr size_t kMaxInstructions = size_t{1} << 24;
inline constexpr size_t kMaxComputations = size_t{1} << 20;
inline constexpr int64_t kMaxParameters = 16384;
inline constexpr int32_t kMaxCallDepth = 64;

struct Instruction {
  Opcode opcode = Opcode::kConstant;
  ShapeId shape = -1;
  ComputationId computation = kEntry;
  std::span<const ValueId> operands;
  std::span<const Attribute> attributes;

  // Null if the attribute is absent.
  const Attribute* find(AttributeKey key) const { return hir::find(attributes, key); }
  // Empty if absent.
  std::span<const int64_t> ints(AttributeKey key) const {
    const Attribute* found = find(key);
    return found != nullptr ? found->ints : std::span<const int64_t>();
  }
};

struct Computation {
  std::string_view name;
  std::vector<ValueId> instructions;
  std::vector<ValueId> parameters;  // by number; -1: not appended yet
  ValueId root = -1;
  int32_t closed = -1;  // order in which calls closed computations; -1: open
  int32_t depth = 1;    // levels of calls below, this one included
};

// What an operation is made of before it is in the graph.
struct Candidate {
  ComputationId computation = kEntry;
  Opcode opcode = Opcode::kConstant;
  std::span<const ValueId> operands;
  ShapeId shape = -1;
  std::span<const Attribute> attributes;
};

struct Alias {
  int32_t output;
  int32_t parameter;
};

// Thread-compatible.
class Graph {
 public:
  explicit Graph(std::string_view name);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Result<ComputationId> add_computation(std::string_view name);

  void rename(std::string_view name) { name_ = name; }
  // For a computation whose name is known after its number.
  void rename_computation(ComputationId computation, std::string_view name);

  // Checks operands, attributes and shape, then appends; the graph is unchanged on failure.
  // Everything in `candidate` is copied. Errors name the operation, expected and found.
  Result<ValueId> append(const Candidate& candidate);

  Status set_root(ComputationId computation, ValueId value);
  Status set_input_name(int32_t parameter, std::string_view name);
  Status set_output_name(int32_t output, std::string_view name);
  Status set_alias(int32_t output, int32_t parameter);

  const std::string& name() const { return name_; }
  ShapeTable& shapes() { return shapes_; }
  const ShapeTable& shapes() const { return shapes_; }
  const Shape& shape_of(ValueId value) const { return shapes_[(*this)[value].shape]; }

  size_t size() const { return instructions_.size(); }
  const Instruction& operator[](ValueId value) const {
    return instructions_[static_cast<size_t>(value)];
  }
  size_t computation_count() const { return computations_.size(); }
  const Computation& computation(ComputationId id) const {
    return computations_[static_cast<size_t>(id)];
  }
  const std::vector<std::string>& input_names() const { return input_names_; }    // "": default
  const std::vector<std::string>& output_names() const { return output_names_; }  // "": default
  const std::vector<Alias>& aliases() const { return aliases_; }

  // The name given by the caller, or "<opcode>.<id>".
  std::string label(ValueId value) const;

 private:
  Status check_structure(const Candidate& candidate) const;
  Status check_calls(const Candidate& candidate);
  Status place_parameter(const Candidate& candidate, ValueId value);

  std::string name_;
  Arena arena_;
  ShapeTable shapes_;
  std::vector<Instruction> instructions_;
  std::vector<Computation> computations_;
  std::vector<std::string> input_names_;
  std::vector<std::string> output_names_;
  std::vector<Alias> aliases_;
  int32_t closed_count_ = 0;
};

// "'add.7' (add)": for messages about a candidate or an instruction.
std::string describe(const Graph& graph, const Candidate& candidate);
std::string describe(const Graph& graph, ValueId value);

// Whole-graph rules that no single append can check: every computation that is used has a root and
// a full set of parameters, aliased pairs have equal shapes, names fit the entry's signature.
Status verify(const Graph& graph);

}  // namespace onrt::hir
