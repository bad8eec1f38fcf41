// SPDX-License-Identifier: Apache-2.0
#include "compiler/hir/infer.h"

#include <array>
#include <vector>

#include "compiler/hir/status.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

using InferFunction = Result<ShapeId> (*)(const InferContext&);

Result<ShapeId> infer_refused(const InferContext& context) {
  return internal(format("{}: no shape inference", describe(context.graph(), context.candidate())));
}

constexpr std::array<InferFunction, kOpcodes> kTable = {
#define ONRT_ELEMENTWISE(name, text, operands, scalar) infer_elementwise,
#define ONRT_OP(name, text, least, most, function) infer_##function,
#define ONRT_UNSUPPORTED(name, text, reason) infer_refused,
#include "compiler/hir/opcodes.def"
};

}  // namespace

Result<ShapeId> infer(const InferContext& context) {
  return kTable[static_cast<size_t>(context.candidate().opcode)](context);
}

const Attribute* InferContext::find(AttributeKey key) const {
  for (const Attribute& attribute : candidate_.attributes) {
    if (attribute.key == key) {
      return &attribute;
    }
  }
  return nullptr;
}

std::span<const int64_t> InferContext::ints(AttributeKey key) const {
  const Attribute* found = find(key);
  return found != nullptr ? found->ints : std::span<const int64_t>();
}

Result<std::span<const int64_t>> InferContext::exactly(AttributeKey key, size_t count) const {
  const std::span<const int64_t> found = ints(key);
  if (found.size() != count) {
    return wrong(format("attribute {}: expected {} integers, found {}",
                        find_attribute(static_cast<int32_t>(key))->name, count, found.size()));
  }
  return found;
}

Result<std::span<const int64_t>> InferContext::dimensions(AttributeKey key, size_t rank) const {
  const std::span<const int64_t> found = ints(key);
  std::array<bool, kMaxRank> seen{};
  for (const int64_t dim : found) {
    if (dim < 0 || static_cast<size_t>(dim) >= rank || seen[static_cast<size_t>(dim)]) {
      return wrong(format("attribute {}: expected distinct dimensions in [0, {}), found {}",
                          find_attribute(static_cast<int32_t>(key))->name, rank, dims_text(found)));
    }
    seen[static_cast<size_t>(dim)] = true;
  }
  return found;
}

Status InferContext::require_arrays() const {
  for (size_t i = 0; i < operand_count(); ++i) {
    if (!operand(i).is_array()) {
      return wrong(format("operand {}: expected an array, found {}", i, text(operand_id(i))));
    }
  }
  return ok_status();
}

Result<const Computation*> InferContext::callee() const {
  ONRT_ASSIGN_OR_RETURN(const auto ids, exactly(AttributeKey::kCalled, 1));
  return &graph_.computation(static_cast<ComputationId>(ids[0]));
}

Result<std::vector<const Computation*>> InferContext::callees(size_t count) const {
  ONRT_ASSIGN_OR_RETURN(const auto ids, exactly(AttributeKey::kCalled, count));
  std::vector<const Computation*> made;
  for (const int64_t id : ids) {
    made.push_back(&graph_.computation(static_cast<ComputationId>(id)));
  }
  return made;
}

Status InferContext::require_signature(const Computation& callee,
                                       std::span<const ShapeId> parameters, ShapeId result) const {
  if (callee.parameters.size() != parameters.size()) {
    return wrong(format("computation '{}': expected {} parameters, found {}", callee.name,
                        parameters.size(), callee.parameters.size()));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ShapeId found = graph_[callee.parameters[i]].shape;
    if (found != parameters[i]) {
      return wrong(format("computation '{}', parameter {}: expected {}, found {}", callee.name, i,
                          text(parameters[i]), text(found)));
    }
  }
  const ShapeId root = graph_[callee.root].shape;
  if (root != result) {
    return wrong(format("computation '{}', root: expected {}, found {}", callee.name, text(result),
                        text(root)));
  }
  return ok_status();
}

Result<ShapeId> InferContext::array(Dtype dtype, std::span<const int64_t> dims) const {
  Result<ShapeId> made = shapes().array(dtype, dims);
  if (!made.ok()) {
    return std::move(made).status().annotate(describe(graph_, candidate_));
  }
  return made;
}

Result<ShapeId> InferContext::one_or_tuple(std::span<const ShapeId> results) const {
  return results.size() == 1 ? Result<ShapeId>(results[0]) : shapes().tuple(results);
}

Status InferContext::wrong(std::string_view text) const {
  return invalid(format("{}: {}", describe(graph_, candidate_), text));
}

}  // namespace onrt::hir
