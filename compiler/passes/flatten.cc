// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "compiler/hir/scalar.h"
#include "compiler/hir/status.h"
#include "compiler/passes/finish.h"
#include "compiler/passes/flat_builder.h"
#include "compiler/passes/merge_carried.h"
#include "compiler/passes/pass_through.h"
#include "emulator/isa/scalar_value.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

// Calls multiply work even where equal nodes are shared.
constexpr size_t kMaxSteps = size_t{1} << 24;

}  // namespace

// Inlines a valid graph into a FlatBuilder. One run() per object.
class Flattener {
 public:
  Flattener(const Graph& graph, const FlatOptions& options)
      : graph_(graph),
        options_(options),
        builder_(graph, options),
        flat_(builder_.flat()),
        pass_through_(graph) {}

  Result<Flat> run() {
    ONRT_RETURN_IF_ERROR(add_parameters());
    std::vector<std::vector<Ref>> arguments;
    arguments.reserve(flat_.parameters_.size());
    for (const Ref parameter : flat_.parameters_) {
      arguments.push_back({parameter});
    }
    ONRT_ASSIGN_OR_RETURN(flat_.outputs_, inline_computation(kEntry, arguments, nullptr));
    finish(flat_);
    return std::move(flat_);
  }

 private:
  using Values = FlatBuilder::Values;

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
      flat_.parameters_.push_back({builder_.push(node), 0});
    }
    return ok_status();
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
      case Opcode::kWhile:
      case Opcode::kConditional:
        if (lifted != nullptr) {
          return not_mapped(value);
        }
        return instruction.opcode == Opcode::kWhile
                   ? flatten_while(value, instruction, operands[0])
                   : flatten_conditional(value, instruction, operands);
      default:
        return lifted == nullptr ? plain(value, instruction, operands)
                                 : lift(value, instruction, operands, *lifted);
    }
  }

  static ComputationId callee(const Instruction& instruction, size_t i = 0) {
    return static_cast<ComputationId>(instruction.ints(AttributeKey::kCalled)[i]);
  }

  // Makes a region inside the current one, which `computation` is inlined into.
  Result<Values> inline_region(RegionKind kind, ComputationId computation,
                               const std::vector<Values>& arguments, int32_t number) {
    const int32_t outside = builder_.enter(number);
    builder_.region(number).kind = kind;
    Result<Values> made = inline_computation(computation, arguments, nullptr);
    builder_.finish_region(number, outside);
    return made;
  }

  // Which arrays of the state the loop changes. If it changes none it has no end or no beginning;
  // it carries all of them then, so that it stays as it is.
  std::vector<bool> carried_arrays(ComputationId body, size_t count) {
    const std::vector<int32_t>& sources = pass_through_.of(body);
    std::vector<bool> carried(count);
    bool any = false;
    for (size_t i = 0; i < count; ++i) {
      carried[i] = !options_.share || sources[i] != static_cast<int32_t>(i);
      any = any || carried[i];
    }
    return any ? carried : std::vector<bool>(count, true);
  }

  Result<Values> flatten_while(ValueId value, const Instruction& instruction, const Values& init) {
    const std::vector<bool> carried = carried_arrays(callee(instruction, 1), init.size());
    Node node;
    node.opcode = Opcode::kWhile;
    node.origin = value;
    node.attributes = instruction.attributes;
    Values operands;
    std::vector<Type> types;
    for (size_t i = 0; i < init.size(); ++i) {
      if (carried[i]) {
        operands.push_back(init[i]);
        types.push_back(flat_.type(init[i]));
      }
    }
    node.operands = flat_.arena_.copy(std::span<const Ref>(operands));
    node.results = flat_.arena_.copy(std::span<const Type>(types));
    const size_t first_node = flat_.nodes_.size();
    std::array<int32_t, 2> regions{};
    for (size_t r = 0; r < regions.size(); ++r) {
      regions[r] = builder_.new_region();
      const Values state = region_state(node, init, carried, regions[r]);
      ONRT_ASSIGN_OR_RETURN(const Values made,
                            inline_region(r == 0 ? RegionKind::kCondition : RegionKind::kBody,
                                          callee(instruction, r), {state}, regions[r]));
      for (size_t i = 0; i < made.size(); ++i) {
        if (r == 0 || carried[i]) {
          builder_.region(regions[r]).results.push_back(made[i]);
        }
      }
    }
    node.regions = flat_.arena_.copy(std::span<const int32_t>(regions));
    const std::vector<int32_t> same =
        options_.share ? CarriedMerger(flat_, node, first_node).run() : numbers(types.size());
    const int32_t index = push_owner(node);
    Values results = init;
    size_t next = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      if (carried[i]) {
        results[i] = {index, same[next++]};
      }
    }
    return results;
  }

  static std::vector<int32_t> numbers(size_t count) {
    std::vector<int32_t> made(count);
    std::iota(made.begin(), made.end(), 0);
    return made;
  }

  // The state inside a region of a loop: a parameter for what is carried, the initial value for the
  // rest.
  Values region_state(const Node& loop, const Values& init, const std::vector<bool>& carried,
                      int32_t number) {
    const int32_t outside = builder_.enter(number);
    Values state = init;
    size_t next = 0;
    for (size_t i = 0; i < init.size(); ++i) {
      if (carried[i]) {
        Node parameter;
        parameter.opcode = Opcode::kParameter;
        parameter.origin = loop.origin;
        parameter.results = loop.results.subspan(next++, 1);
        state[i] = {builder_.push(parameter), 0};
        builder_.region(number).parameters.push_back(state[i]);
      }
    }
    builder_.resume(outside);
    return state;
  }

  Result<Values> flatten_conditional(ValueId value, const Instruction& instruction,
                                     const std::vector<Values>& operands) {
    const Ref selector = operands[0][0];
    const size_t branches = operands.size() - 1;
    const bool known = options_.fold && flat_[selector.node].opcode == Opcode::kConstant;
    if (branches == 1 || known) {
      const size_t taken = branches == 1 ? 0 : constant_branch(selector, branches);
      return inline_computation(callee(instruction, taken), {operands[taken + 1]}, nullptr);
    }
    std::vector<int32_t> regions;
    std::vector<Values> made;
    for (size_t i = 0; i < branches; ++i) {
      regions.push_back(builder_.new_region());
      ONRT_ASSIGN_OR_RETURN(Values results,
                            inline_region(RegionKind::kBranch, callee(instruction, i),
                                          {operands[i + 1]}, regions[i]));
      made.push_back(std::move(results));
    }
    Node node;
    node.opcode = Opcode::kConditional;
    node.origin = value;
    node.attributes = instruction.attributes;
    node.operands = flat_.arena_.copy(std::span<const Ref>(&selector, 1));
    node.regions = flat_.arena_.copy(std::span<const int32_t>(regions));
    std::vector<Type> types;
    Values results = made[0];
    const auto index = static_cast<int32_t>(flat_.nodes_.size());
    for (size_t k = 0; k < results.size(); ++k) {
      const bool same = options_.share && std::ranges::all_of(made, [&](const Values& branch) {
                          return branch[k] == made[0][k];
                        });
      if (same) {
        continue;  // every branch gives back the same value, which therefore is an outer one
      }
      for (size_t i = 0; i < branches; ++i) {
        builder_.region(regions[i]).results.push_back(made[i][k]);
      }
      types.push_back(flat_.type(made[0][k]));
      results[k] = {index, static_cast<int32_t>(types.size() - 1)};
    }
    node.results = flat_.arena_.copy(std::span<const Type>(types));
    push_owner(node);
    return results;
  }

  size_t constant_branch(Ref selector, size_t branches) const {
    const Dtype type = flat_.type(selector).dtype;
    const auto data = find(flat_[selector.node].attributes, AttributeKey::kLiteral)->data;
    const ncx::Boxed number = ncx::load_boxed(type, data.data());
    if (type == Dtype::kPred) {
      return number != 0 ? 0 : 1;
    }
    return number < branches ? static_cast<size_t>(number) : branches - 1;
  }

  // A node that runs regions.
  int32_t push_owner(const Node& node) {
    const int32_t index = builder_.push(node);
    for (const int32_t owned : node.regions) {
      builder_.region(owned).owner = index;
    }
    return index;
  }

  Values tuple_element(const Instruction& instruction, const Values& operand) {
    const Shape& shape = graph_.shape_of(instruction.operands[0]);
    const auto index = static_cast<size_t>(instruction.ints(AttributeKey::kTupleIndex)[0]);
    const size_t begin = leaves_before(graph_.shapes(), shape, index);
    const size_t count = leaf_count(graph_.shapes(), shape.elements[index]);
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
    const bool product = node.opcode == Opcode::kDot || node.opcode == Opcode::kConvolution;
    if (product && options_.dot_type != Dtype::kF32) {
      ONRT_RETURN_IF_ERROR(cast_operands(value, refs));
    }
    node.operands = refs;
    node.results = types_of(instruction.shape, nullptr);
    return builder_.add(node);
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
      ONRT_ASSIGN_OR_RETURN(const Values made, builder_.add(node));
      ref = made[0];
    }
    return ok_status();
  }

  Status not_mapped(ValueId value) const {
    return unsupported(format("{}: not supported in a computation that is mapped over elements",
                              hir::describe(graph_, value)));
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
      return builder_.add(node);
    }
    const Dtype operand = operands.empty() ? Dtype::kF32 : flat_.type(operands[0][0]).dtype;
    const Shape& shape = graph_.shapes()[instruction.shape];
    if (!shape.is_array() ||
        !scalar_op(instruction.opcode, instruction.attributes, operand, shape.dtype)) {
      return not_mapped(value);
    }
    Node node;
    node.opcode = instruction.opcode;
    node.origin = value;
    node.attributes = instruction.attributes;
    std::vector<Ref> refs;
    refs.reserve(operands.size());
    for (const Values& each : operands) {
      refs.push_back(each[0]);
    }
    node.operands = refs;
    node.results = types_of(instruction.shape, &dims);
    return builder_.add(node);
  }

  const Graph& graph_;
  FlatOptions options_;
  FlatBuilder builder_;
  Flat& flat_;  // the builder's
  PassThrough pass_through_;
  size_t steps_ = 0;  // instructions inlined so far
};

Result<Flat> Flat::make(const Graph& graph, const FlatOptions& options) {
  ONRT_RETURN_IF_ERROR(verify(graph));
  return Flattener(graph, options).run();
}

}  // namespace onrt::hir
