// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify.h"

#include <algorithm>

namespace onrt::hir {
namespace {

constexpr Ref kNone{};

bool same_type(const Type& a, const Type& b) {
  return a.dtype == b.dtype && std::ranges::equal(a.dims, b.dims);
}

bool is_identity_order(std::span<const int64_t> order) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int64_t>(i)) {
      return false;
    }
  }
  return true;
}

// A reverse along dimensions of one element, or of none.
bool reverses_nothing(const Type& type, std::span<const int64_t> dims) {
  return std::ranges::all_of(dims,
                             [&](int64_t d) { return type.dims[static_cast<size_t>(d)] < 2; });
}

// iota, then broadcast, is an iota along another dimension.
void simplify_broadcast(const Flat& flat, Arena& arena, Node& node) {
  const Node& operand = flat[node.operands[0].node];
  if (operand.opcode != Opcode::kIota) {
    return;
  }
  const int64_t along = operand.ints(AttributeKey::kDimensions)[0];
  const int64_t dim = node.ints(AttributeKey::kDimensions)[static_cast<size_t>(along)];
  const Attribute made{
      AttributeKey::kDimensions, arena.copy(std::span<const int64_t>(&dim, 1)), {}};
  node.opcode = Opcode::kIota;
  node.operands = {};
  node.attributes = arena.copy(std::span<const Attribute>(&made, 1));
}

}  // namespace

Ref simplify(const Flat& flat, Arena& arena, Node& node) {
  if (node.results.size() != 1 || node.operands.empty()) {
    return kNone;
  }
  const Ref first = node.operands[0];
  const bool same = same_type(flat.type(first), node.results[0]);
  switch (node.opcode) {
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kConvert:
    case Opcode::kBitcastConvert:
    case Opcode::kSlice:         // of every element: a stride above 1 would give fewer
    case Opcode::kDynamicSlice:  // of every element: clamping makes all starts 0
      return same ? first : kNone;
    case Opcode::kConcatenate:
      return same && node.operands.size() == 1 ? first : kNone;
    case Opcode::kTranspose:
      return is_identity_order(node.ints(AttributeKey::kDimensions)) ? first : kNone;
    case Opcode::kReverse:
      return reverses_nothing(node.results[0], node.ints(AttributeKey::kDimensions)) ? first
                                                                                     : kNone;
    case Opcode::kBroadcast:
      if (same && is_identity_order(node.ints(AttributeKey::kDimensions))) {
        return first;
      }
      simplify_broadcast(flat, arena, node);
      return kNone;
    case Opcode::kPad:
      return same && std::ranges::all_of(node.ints(AttributeKey::kPadding),
                                         [](int64_t value) { return value == 0; })
                 ? first
                 : kNone;
    default:
      return kNone;
  }
}

}  // namespace onrt::hir
