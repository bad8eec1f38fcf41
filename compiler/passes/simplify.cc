// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify.h"

#include <algorithm>

#include "compiler/hir/combiner.h"
#include "compiler/hir/window.h"
#include "emulator/isa/window_order.h"

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

// The bits of a constant's first element; nothing if it is not a constant.
std::optional<uint64_t> first_bits(const Flat& flat, Ref ref) {
  const Node& node = flat[ref.node];
  if (node.opcode != Opcode::kConstant || flat.type(ref).elements == 0) {
    return std::nullopt;
  }
  uint64_t bits = 0;
  const auto data = find(node.attributes, AttributeKey::kLiteral)->data;
  std::copy_n(data.begin(), dtype_bytes(flat.type(ref).dtype), reinterpret_cast<std::byte*>(&bits));
  return bits;
}

// Sums of elements and zeros, then a zero; maxima beside -infinity: what the padding adds changes
// no bit, and the window's own padding, which takes no part, is as good.
bool padding_is_neutral(const Flat& flat, const Node& fold, const Node& pad) {
  const auto callee = static_cast<ComputationId>(fold.ints(AttributeKey::kCalled)[0]);
  const auto combiners = simple_combiners(flat.graph(), callee);
  const auto initial = first_bits(flat, fold.operands[1]);
  if (combiners.size() != 1 || !initial || initial != first_bits(flat, pad.operands[1])) {
    return false;
  }
  return (combiners[0] == ncx::ScalarOp::kAdd && *initial == 0) ||
         (combiners[0] == ncx::ScalarOp::kMaximum && fold.results[0].dtype == Dtype::kF32 &&
          *initial == 0xff800000);
}

// A fold over windows of a padded array takes the padding into its windows: no padded copy.
void absorb_pad(const Flat& flat, Arena& arena, Node& node) {
  if (node.operands.size() != 2 || flat[node.operands[0].node].opcode != Opcode::kPad) {
    return;
  }
  const Node& pad = flat[node.operands[0].node];
  const Type& inner = flat.type(pad.operands[0]);
  const auto padding = pad.ints(AttributeKey::kPadding);
  const auto before = node.ints(AttributeKey::kWindow);
  if (inner.elements == 0 || !padding_is_neutral(flat, node, pad)) {
    return;
  }
  std::vector<int64_t> window(before.begin(), before.end());
  int64_t places = 1;
  for (size_t d = 0; d < inner.dims.size(); ++d) {
    const int64_t low = padding[3 * d];
    const int64_t high = padding[3 * d + 1];
    const int64_t between = padding[3 * d + 2];
    int64_t* ints = &window[kWindowInts * d];  // size, stride, low, high, dilation, of the base
    places = std::min(places, ncx::kWindowChunk) * std::min(ints[0], 2 * ncx::kWindowChunk);
    if (low < 0 || high < 0 || (between > 0 && ints[5] != 1) ||
        std::max({low, high, between}) > ncx::kMaxWindowNumber / 4 / ints[5] ||
        std::max(ints[2], ints[3]) > ncx::kMaxWindowNumber / 4) {
      return;
    }
    ints[2] += low * ints[5];
    ints[3] += high * ints[5];
    ints[5] *= between + 1;
  }
  // A window of one chunk is folded element by element, wherever the padding is.
  const Type& padded = flat.type(node.operands[0]);
  const auto backward = [&](std::span<const int64_t> ints, std::span<const int64_t> dims) {
    return ncx::folds_backward(window_of(ints), dims, node.results[0].dims);
  };
  if (places > ncx::kWindowChunk || backward(before, padded.dims) != backward(window, inner.dims)) {
    return;
  }
  const Ref operands[] = {pad.operands[0], node.operands[1]};
  std::vector<Attribute> attributes(node.attributes.begin(), node.attributes.end());
  std::ranges::find(attributes, AttributeKey::kWindow, &Attribute::key)->ints =
      arena.copy(std::span<const int64_t>(window));
  node.operands = arena.copy(std::span<const Ref>(operands));
  node.attributes = arena.copy(std::span<const Attribute>(attributes));
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
    case Opcode::kReduceWindow:
      absorb_pad(flat, arena, node);
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
