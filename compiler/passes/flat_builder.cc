// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/flat_builder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "compiler/hir/status.h"
#include "compiler/passes/fold.h"
#include "compiler/passes/node_hash.h"
#include "compiler/passes/simplify.h"
#include "compiler/passes/views.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

// Inlining can multiply a graph; this many nodes are far beyond any real one.
constexpr size_t kMaxNodes = size_t{1} << 22;

// A value of a loop that takes this much more memory outside of it may still move there.
constexpr int64_t kFreeBytes = 4096;

int64_t result_bytes(const Node& node) {
  int64_t bytes = 0;
  for (const Type& type : node.results) {
    bytes += static_cast<int64_t>(type.bytes());
  }
  return bytes;
}

}  // namespace

FlatBuilder::FlatBuilder(const Graph& graph, const FlatOptions& options)
    : options_(options), graph_uses_(graph.size()) {
  flat_.graph_ = &graph;
  flat_.nodes_.reserve(graph.size());
  flat_.regions_.emplace_back();
  stored_.reserve(graph.size());
  by_hash_.reserve(graph.size());
  for (size_t i = 0; i < graph.size(); ++i) {
    for (const ValueId operand : graph[static_cast<ValueId>(i)].operands) {
      ++graph_uses_[static_cast<size_t>(operand)];
    }
  }
  for (size_t i = 0; i < graph.computation_count(); ++i) {
    if (const ValueId root = graph.computation(static_cast<ComputationId>(i)).root; root >= 0) {
      ++graph_uses_[static_cast<size_t>(root)];
    }
  }
}

int32_t FlatBuilder::new_region() {
  Region& made = flat_.regions_.emplace_back();
  made.parent = current_;
  depth_.push_back(depth_[static_cast<size_t>(current_)] + 1);
  hashes_.emplace_back();
  return static_cast<int32_t>(flat_.regions_.size() - 1);
}

int32_t FlatBuilder::enter(int32_t region) { return std::exchange(current_, region); }

void FlatBuilder::finish_region(int32_t region, int32_t outside) {
  current_ = outside;
  for (const std::pair<uint64_t, int32_t>& known : hashes_[static_cast<size_t>(region)]) {
    forget(known.first, known.second);
  }
  hashes_[static_cast<size_t>(region)].clear();
}

// Nobody outside of its region may share this node.
void FlatBuilder::forget(uint64_t hash, int32_t index) {
  const auto range = by_hash_.equal_range(hash);
  for (auto it = range.first; it != range.second; ++it) {
    if (it->second == index) {
      by_hash_.erase(it);
      return;
    }
  }
}

int32_t FlatBuilder::push(Node node) {
  node.region = place(node);
  flat_.nodes_.push_back(node);
  int64_t bytes = 0;
  if (is_view(node.opcode)) {
    bytes = stored_[static_cast<size_t>(node.operands[0].node)];
  } else if (node.opcode != Opcode::kIota) {
    bytes = result_bytes(node);
  }
  stored_.push_back(bytes);
  return static_cast<int32_t>(flat_.nodes_.size() - 1);
}

// Where a node belongs: further out than the current region if it gives the same in every
// iteration.
int32_t FlatBuilder::place(const Node& node) const {
  if (node.opcode == Opcode::kConstant || node.opcode == Opcode::kIota) {
    return 0;  // costs nothing where it is not used
  }
  if (!options_.share || node.operands.empty() || node.opcode == Opcode::kRng ||
      !node.regions.empty() || !may_move_out(node)) {
    return current_;
  }
  int32_t deepest = 0;
  for (const Ref operand : node.operands) {
    deepest = std::max(deepest, depth_[static_cast<size_t>(flat_[operand.node].region)]);
  }
  int32_t placed = current_;
  while (flat_.region(placed).repeats() && deepest < depth_[static_cast<size_t>(placed)]) {
    placed = flat_.region(placed).parent;
  }
  return placed;
}

// Views, and what is either dear or needs no more memory than its operands.
bool FlatBuilder::may_move_out(const Node& node) const {
  if (is_view(node.opcode) || node.opcode == Opcode::kDot || node.opcode == Opcode::kReduce) {
    return true;
  }
  int64_t bytes = result_bytes(node);
  for (const Ref operand : node.operands) {
    bytes -= stored_[static_cast<size_t>(operand.node)];
  }
  return bytes <= kFreeBytes;
}

// transpose(dot(a, b)) that puts b's free dimensions first is dot(b, a): each element is the same
// sum of the same products. Only if the graph uses the dot nowhere else.
bool FlatBuilder::swap_transposed_dot(Node& node, std::array<Ref, 2>& operands) {
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

Result<FlatBuilder::Values> FlatBuilder::add(Node node) {
  if (flat_.nodes_.size() >= kMaxNodes) {
    return too_large(
        format("{}: more than {} operations after inlining", flat_.describe(node), kMaxNodes));
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
  const int32_t index = push(node);
  if (shared) {
    by_hash_.emplace(hash, index);
    hashes_[static_cast<size_t>(flat_[index].region)].emplace_back(hash, index);
  }
  return results_of(index);
}

FlatBuilder::Values FlatBuilder::results_of(int32_t node) const {
  Values made;
  for (size_t i = 0; i < flat_[node].results.size(); ++i) {
    made.push_back({node, static_cast<int32_t>(i)});
  }
  return made;
}

}  // namespace onrt::hir
