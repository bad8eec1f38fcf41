// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "compiler/hir/scalar.h"
#include "compiler/hir/status.h"
#include "compiler/passes/flat.h"
#include "compiler/passes/fold.h"
#include "compiler/passes/simplify.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

// Inlining can multiply a graph; this many nodes are far beyond any real one.
constexpr size_t kMaxNodes = size_t{1} << 22;
// Calls multiply work even where equal nodes are shared.
constexpr size_t kMaxSteps = size_t{1} << 24;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdULL;
}

bool is_debug(AttributeKey key) {
  return key == AttributeKey::kName || key == AttributeKey::kSource;
}

uint64_t hash_node(const Node& node) {
  uint64_t hash = mix(static_cast<uint64_t>(node.opcode), node.operands.size());
  for (const Ref& operand : node.operands) {
    hash = mix(hash,
               static_cast<uint64_t>(operand.node) << 16 | static_cast<uint64_t>(operand.result));
  }
  for (const Type& type : node.results) {
    hash = mix(hash, static_cast<uint64_t>(type.dtype));
    for (const int64_t dim : type.dims) {
      hash = mix(hash, static_cast<uint64_t>(dim));
    }
  }
  for (const Attribute& attribute : node.attributes) {
    if (is_debug(attribute.key)) {
      continue;
    }
    hash = mix(hash, static_cast<uint64_t>(attribute.key));
    for (const int64_t value : attribute.ints) {
      hash = mix(hash, static_cast<uint64_t>(value));
    }
    hash = mix(hash, std::hash<std::string_view>()(attribute.text()));
  }
  return hash;
}

bool same_type(const Type& a, const Type& b) {
  return a.dtype == b.dtype && std::ranges::equal(a.dims, b.dims);
}

// True if every attribute of `a` that matters is in `b` with the same payload.
bool covered(std::span<const Attribute> a, std::span<const Attribute> b) {
  for (const Attribute& attribute : a) {
    const Attribute* other = find(b, attribute.key);
    if (!is_debug(attribute.key) &&
        (other == nullptr || !std::ranges::equal(attribute.ints, other->ints) ||
         attribute.text() != other->text())) {
      return false;
    }
  }
  return true;
}

bool same_node(const Node& a, const Node& b) {
  return a.opcode == b.opcode && std::ranges::equal(a.operands, b.operands) &&
         std::ranges::equal(a.results, b.results, same_type) &&
         covered(a.attributes, b.attributes) && covered(b.attributes, a.attributes);
}

}  // namespace

// Builds a Flat. One run() per object.
class Flattener {
 public:
  Flattener(const Graph& graph, const FlatOptions& options) : graph_(graph), options_(options) {
    flat_.graph_ = &graph;
    flat_.nodes_.reserve(graph.size());
  }

  Result<Flat> run() {
    ONRT_RETURN_IF_ERROR(verify(graph_));
    count_graph_uses();
    ONRT_RETURN_IF_ERROR(add_parameters());
    std::vector<std::vector<Ref>> arguments;
    for (const Ref parameter : flat_.parameters_) {
      arguments.push_back({parameter});
    }
    ONRT_ASSIGN_OR_RETURN(flat_.outputs_, inline_computation(kEntry, arguments, nullptr));
    mark_live();
    count_uses();
    return std::move(flat_);
  }

 private:
  using Values = std::vector<Ref>;  // one per array of a (nested) tuple

  void count_graph_uses() {
    graph_uses_.assign(graph_.size(), 0);
    for (size_t i = 0; i < graph_.size(); ++i) {
      for (const ValueId operand : graph_[static_cast<ValueId>(i)].operands) {
        ++graph_uses_[static_cast<size_t>(operand)];
      }
    }
    for (size_t i = 0; i < graph_.computation_count(); ++i) {
      if (const ValueId root = graph_.computation(static_cast<ComputationId>(i)).root; root >= 0) {
        ++graph_uses_[static_cast<size_t>(root)];
      }
    }
  }

  Status add_parameters() {
    for (const ValueId parameter : graph_.computation(kEntry).parameters) {
      if (!graph_.shape_of(parameter).is_array()) {
        return unsupported(format("{}: expected an array as parameter of the entry, found {}",
                                  hir::describe(graph_, parameter),
                                  graph_.shapes().text(graph_[parameter].shape)));
      }
      Node node;
      node.opcode = Opcode::kParameter;
      node.origin = parameter;
      node.attributes = graph_[parameter].attributes;
      node.results = types_of(graph_[parameter].shape, nullptr);
      flat_.nodes_.push_back(node);
      flat_.parameters_.push_back({static_cast<int32_t>(flat_.nodes_.size() - 1), 0});
    }
    return ok_status();
  }

  static size_t leaves(const ShapeTable& shapes, ShapeId id) {
    const Shape& shape = shapes[id];
    if (!shape.is_tuple()) {
      return 1;
    }
    size_t count = 0;
    for (const ShapeId element : shape.elements) {
      count += leaves(shapes, element);  // depth is at most kMaxTupleDepth
    }
    return count;
  }

  void append_types(ShapeId id, const Type* lifted, std::vector<Type>& out) {
    const Shape& shape = graph_.shapes()[id];
    if (shape.is_tuple()) {
      for (const ShapeId element : shape.elements) {
        append_types(element, lifted, out);
      }
    } else {
      out.push_back(lifted == nullptr ? Type{shape.dtype, shape.dims, shape.element_count}
                                      : Type{shape.dtype, lifted->dims, lifted->elements});
    }
  }

  std::span<const Type> types_of(ShapeId id, const Type* lifted) {
    std::vector<Type> types;
    append_types(id, lifted, types);
    return flat_.arena_.copy(std::span<const Type>(types));
  }

  // The root's arrays. `lifted`: the computation maps scalars; work on arrays of these dims.
  Result<Values> inline_computation(ComputationId id, const std::vector<Values>& arguments,
                                    const Type* lifted) {
    const Computation& computation = graph_.computation(id);
    steps_ += computation.instructions.size();
    if (steps_ > kMaxSteps) {
      return too_large(format("computation '{}': more than {} operations are inlined by calls",
                              computation.name, kMaxSteps));
    }
    std::unordered_map<ValueId, Values> tuples;  // values of several arrays
    std::vector<Ref> single(computation.instructions.size());
    const ValueId first = computation.instructions.front();
    const bool consecutive = computation.instructions.back() - first + 1 ==
                             static_cast<ValueId>(computation.instructions.size());
    std::unordered_map<ValueId, size_t> position;
    if (!consecutive) {
      for (size_t i = 0; i < single.size(); ++i) {
        position[computation.instructions[i]] = i;
      }
    }
    const auto place = [&](ValueId value) {
      return consecutive ? static_cast<size_t>(value - first) : position.at(value);
    };
    const auto values_of = [&](ValueId value) -> Values {
      const Ref ref = single[place(value)];
      return ref.node >= 0 ? Values{ref} : tuples.at(value);
    };
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      const ValueId value = computation.instructions[i];
      const Instruction& instruction = graph_[value];
      std::vector<Values> operands;
      operands.reserve(instruction.operands.size());
      for (const ValueId operand : instruction.operands) {
        operands.push_back(values_of(operand));
      }
      ONRT_ASSIGN_OR_RETURN(Values made,
                            inline_instruction(value, instruction, operands, arguments, lifted));
      if (made.size() == 1) {
        single[i] = made[0];
      } else {
        tuples[value] = std::move(made);
      }
    }
    return values_of(computation.root);
  }

  Result<Values> inline_instruction(ValueId value, const Instruction& instruction,
                                    const std::vector<Values>& operands,
                                    const std::vector<Values>& arguments, const Type* lifted) {
    switch (instruction.opcode) {
      case Opcode::kParameter:
        return arguments[static_cast<size_t>(instruction.ints(AttributeKey::kParameterNumber)[0])];
      case Opcode::kTuple: {
        Values made;
        for (const Values& operand : operands) {
          made.insert(made.end(), operand.begin(), operand.end());
        }
        return made;
      }
      case Opcode::kGetTupleElement:
        return tuple_element(instruction, operands[0]);
      case Opcode::kCopy:
      case Opcode::kOptimizationBarrier:
        return operands[0];
      case Opcode::kCall:
        return inline_computation(callee(instruction), operands, lifted);
      case Opcode::kMap: {
        const Type& type = flat_.type(operands[0][0]);
        const Type dims = lifted != nullptr ? *lifted : type;
        return inline_computation(callee(instruction), operands, &dims);
      }
      default:
        return lifted == nullptr ? plain(value, instruction, operands)
                                 : lift(value, instruction, operands, *lifted);
    }
  }

  static ComputationId callee(const Instruction& instruction) {
    return static_cast<ComputationId>(instruction.ints(AttributeKey::kCalled)[0]);
  }

  Values tuple_element(const Instruction& instruction, const Values& operand) {
    const Shape& shape = graph_.shape_of(instruction.operands[0]);
    const auto index = static_cast<size_t>(instruction.ints(AttributeKey::kTupleIndex)[0]);
    size_t begin = 0;
    for (size_t i = 0; i < index; ++i) {
      begin += leaves(graph_.shapes(), shape.elements[i]);
    }
    const size_t count = leaves(graph_.shapes(), shape.elements[index]);
    return {operand.begin() + static_cast<ptrdiff_t>(begin),
            operand.begin() + static_cast<ptrdiff_t>(begin + count)};
  }

  Result<Values> plain(ValueId value, const Instruction& instruction,
                       const std::vector<Values>& operands) {
    Node node;
    node.opcode = instruction.opcode;
    node.origin = value;
    node.attributes = instruction.attributes;
    std::vector<Ref> refs;
    for (const Values& operand : operands) {
      refs.insert(refs.end(), operand.begin(), operand.end());
    }
    if (node.opcode == Opcode::kDot && options_.dot_type != Dtype::kF32) {
      ONRT_RETURN_IF_ERROR(cast_operands(value, refs));
    }
    node.operands = refs;
    node.results = types_of(instruction.shape, nullptr);
    return add(node);
  }

  Status cast_operands(ValueId value, std::vector<Ref>& refs) {
    for (Ref& ref : refs) {
      if (flat_.type(ref).dtype != Dtype::kF32) {
        continue;
      }
      Type type = flat_.type(ref);
      type.dtype = options_.dot_type;
      Node node;
      node.opcode = Opcode::kConvert;
      node.origin = value;
      const Ref from = ref;
      node.operands = {&from, 1};
      node.results = flat_.arena_.copy(std::span<const Type>(&type, 1));
      ONRT_ASSIGN_OR_RETURN(const Values made, add(node));
      ref = made[0];
    }
    return ok_status();
  }

  // An operation of a computation over scalars, done on whole arrays.
  Result<Values> lift(ValueId value, const Instruction& instruction,
                      const std::vector<Values>& operands, const Type& dims) {
    if (instruction.opcode == Opcode::kConstant) {
      ONRT_ASSIGN_OR_RETURN(const Values constant, plain(value, instruction, operands));
      Node node;
      node.opcode = Opcode::kBroadcast;
      node.origin = value;
      node.operands = constant;
      node.results = types_of(instruction.shape, &dims);
      static constexpr Attribute kNoDimensions{AttributeKey::kDimensions, {}, {}};
      node.attributes = {&kNoDimensions, 1};
      return add(node);
    }
    const Dtype operand = operands.empty() ? Dtype::kF32 : flat_.type(operands[0][0]).dtype;
    const Shape& shape = graph_.shapes()[instruction.shape];
    if (!shape.is_array() ||
        !scalar_op(instruction.opcode, instruction.attributes, operand, shape.dtype)) {
      return unsupported(format("{}: not supported in a computation that is mapped over elements",
                                hir::describe(graph_, value)));
    }
    Node node;
    node.opcode = instruction.opcode;
    node.origin = value;
    node.attributes = instruction.attributes;
    std::vector<Ref> refs;
    for (const Values& each : operands) {
      refs.push_back(each[0]);
    }
    node.operands = refs;
    node.results = types_of(instruction.shape, &dims);
    return add(node);
  }

  // transpose(dot(a, b)) that puts b's free dimensions first is dot(b, a): each element is the same
  // sum of the same products. Only if the graph uses the dot nowhere else.
  bool swap_transposed_dot(Node& node, std::array<Ref, 2>& operands) {
    const Node& dot = flat_[node.operands[0].node];
    if (dot.opcode != Opcode::kDot || graph_uses_[static_cast<size_t>(dot.origin)] != 1) {
      return false;
    }
    const auto batch = static_cast<int64_t>(dot.ints(AttributeKey::kLhsBatch).size());
    const auto lhs_end =  // of the result's dimensions: batch, then lhs's free ones
        static_cast<int64_t>(flat_.type(dot.operands[0]).dims.size() -
                             dot.ints(AttributeKey::kLhsContracting).size());
    const auto order = node.ints(AttributeKey::kDimensions);
    const auto rank = static_cast<int64_t>(order.size());
    for (int64_t i = 0; i < rank; ++i) {
      const int64_t rhs_free = rank - lhs_end;
      const int64_t expected = i < batch              ? i
                               : i < batch + rhs_free ? lhs_end + i - batch
                                                      : i - rhs_free;
      if (order[static_cast<size_t>(i)] != expected) {
        return false;
      }
    }
    operands = {dot.operands[1], dot.operands[0]};
    const std::array<Attribute, 4> attributes = {
        Attribute{AttributeKey::kLhsBatch, dot.ints(AttributeKey::kRhsBatch), {}},
        Attribute{AttributeKey::kRhsBatch, dot.ints(AttributeKey::kLhsBatch), {}},
        Attribute{AttributeKey::kLhsContracting, dot.ints(AttributeKey::kRhsContracting), {}},
        Attribute{AttributeKey::kRhsContracting, dot.ints(AttributeKey::kLhsContracting), {}}};
    node.opcode = Opcode::kDot;
    node.origin = dot.origin;
    node.operands = operands;
    node.attributes = flat_.arena_.copy(std::span<const Attribute>(attributes));
    return true;
  }

  // Appends, or finds an equal or simpler value. Operands may lie in temporary memory.
  Result<Values> add(Node node) {
    if (flat_.nodes_.size() >= kMaxNodes) {
      return too_large(format("{}: more than {} operations after inlining",
                              hir::describe(graph_, node.origin), kMaxNodes));
    }
    if (const Ref same = simplify(flat_, flat_.arena_, node); same.node >= 0) {
      return Values{same};
    }
    std::array<Ref, 2> swapped;  // outlives its use as node.operands
    if (options_.share && node.opcode == Opcode::kTranspose) {
      swap_transposed_dot(node, swapped);
    }
    if (options_.fold) {
      ONRT_RETURN_IF_ERROR(fold(flat_, flat_.arena_, node));
    }
    const bool shared = options_.share && node.opcode != Opcode::kRng;
    uint64_t hash = 0;
    if (shared) {
      hash = hash_node(node);
      const auto range = by_hash_.equal_range(hash);
      for (auto it = range.first; it != range.second; ++it) {
        if (same_node(flat_[it->second], node)) {
          return results_of(it->second);
        }
      }
    }
    node.operands = flat_.arena_.copy(node.operands);
    const auto index = static_cast<int32_t>(flat_.nodes_.size());
    flat_.nodes_.push_back(node);
    if (shared) {
      by_hash_.emplace(hash, index);
    }
    return results_of(index);
  }

  Values results_of(int32_t node) const {
    Values made;
    for (size_t i = 0; i < flat_[node].results.size(); ++i) {
      made.push_back({node, static_cast<int32_t>(i)});
    }
    return made;
  }

  void mark_live() {
    for (const Ref output : flat_.outputs_) {
      flat_.nodes_[static_cast<size_t>(output.node)].live = true;
    }
    for (size_t i = flat_.nodes_.size(); i-- > 0;) {
      if (flat_.nodes_[i].live) {
        for (const Ref operand : flat_.nodes_[i].operands) {
          flat_.nodes_[static_cast<size_t>(operand.node)].live = true;
        }
      }
    }
  }

  void count_uses() {
    size_t values = 0;
    flat_.first_value_.reserve(flat_.nodes_.size());
    for (const Node& node : flat_.nodes_) {
      flat_.first_value_.push_back(values);
      values += node.results.size();
    }
    flat_.uses_.assign(values, 0);
    for (const Node& node : flat_.nodes_) {
      for (const Ref operand : node.operands) {
        flat_.uses_[flat_.value_index(operand)] += node.live ? 1 : 0;
      }
    }
    for (const Ref output : flat_.outputs_) {
      ++flat_.uses_[flat_.value_index(output)];
    }
  }

  const Graph& graph_;
  FlatOptions options_;
  Flat flat_;
  std::vector<int> graph_uses_;  // by value of the graph
  size_t steps_ = 0;             // instructions inlined so far
  std::unordered_multimap<uint64_t, int32_t> by_hash_;
};

Result<Flat> Flat::make(const Graph& graph, const FlatOptions& options) {
  return Flattener(graph, options).run();
}

std::string Flat::text() const {
  std::string out;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!node.live) {
      continue;
    }
    out += format("%{} =", i);
    for (const Type& type : node.results) {
      out += format(" {}{}", dtype_name(type.dtype), dims_text(type.dims));
    }
    out += format(" {}(", opcode_name(node.opcode));
    for (size_t k = 0; k < node.operands.size(); ++k) {
      out += format("{}%{}", k == 0 ? "" : ", ", node.operands[k].node);
      out += node.operands[k].result != 0 ? format("#{}", node.operands[k].result) : "";
    }
    out += ")";
    for (const Attribute& attribute : node.attributes) {
      if (!attribute.ints.empty()) {
        out += format(" {}={}", find_attribute(static_cast<int32_t>(attribute.key))->name,
                      dims_text(attribute.ints));
      }
    }
    out += "\n";
  }
  out += "outputs:";
  for (const Ref output : outputs_) {
    out += format(" %{}{}", output.node, output.result != 0 ? format("#{}", output.result) : "");
  }
  return out + "\n";
}

}  // namespace onrt::hir
