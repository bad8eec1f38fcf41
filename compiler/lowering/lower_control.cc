// SPDX-License-Identifier: Apache-2.0
// Loops and conditionals: one control kernel over blocks of their own.
#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/lowering/lowerer.h"
#include "compiler/passes/readers_first.h"

namespace onrt::lowering {

Status lower_while(Lowerer& lowerer, const Node& node, int32_t index) {
  return lowerer.lower_loop(node, index);
}

Status lower_conditional(Lowerer& lowerer, const Node& node, int32_t index) {
  return lowerer.lower_branches(node, index);
}

int32_t Lowerer::open_block(bool repeats) {
  const int32_t number = plan_.blocks++;
  blocks_.push_back({repeats ? number : blocks_[static_cast<size_t>(block_)].loop, false});
  return number;
}

int32_t Lowerer::enter(int32_t block) {
  blocks_[static_cast<size_t>(block)].open = true;
  return std::exchange(block_, block);
}

void Lowerer::leave(int32_t outer) {
  blocks_[static_cast<size_t>(block_)].open = false;
  block_ = outer;
}

// The buffers of carried values, filled with the initial ones. Empty windows for those that are not
// live or have no elements.
std::vector<Window> Lowerer::carry(const Node& node, int32_t index) {
  std::vector<Window> carried(node.results.size());
  std::vector<CopyPiece> pieces;
  for (size_t k = 0; k < carried.size(); ++k) {
    if (!is_made({index, static_cast<int32_t>(k)})) {
      continue;
    }
    const Type& type = node.results[k];
    const Window init = window(node.operands[k]);
    if (may_overwrite(init)) {
      carried[k] = dense_window(init.buffer, type.dtype, type.dims);
      buffers_[static_cast<size_t>(init.buffer)].updated = last_kernel() + 1;
    } else {
      carried[k] = new_buffer(type);
      pieces.push_back({init, carried[k]});
    }
  }
  for (size_t k = 0; k < carried.size(); ++k) {
    if (flat_.is_live({index, static_cast<int32_t>(k)})) {
      release(node.operands[k]);
    }
  }
  add_copies(pieces, node);
  return carried;
}

bool Lowerer::is_made(Ref ref) const { return flat_.is_live(ref) && type(ref).elements > 0; }

// `carried` without elements stands for buffers that nothing reads.
void Lowerer::bind_parameters(const hir::Region& region, std::span<const Window> carried,
                              int32_t index) {
  for (size_t k = 0; k < carried.size(); ++k) {
    const Ref parameter = region.parameters[k];
    if (is_made({index, static_cast<int32_t>(k)})) {
      attach(value(parameter), carried[k], -1);
    } else {
      attach(value(parameter), new_buffer(type(parameter)), -1);
    }
  }
}

Status Lowerer::lower_loop(const Node& node, int32_t index) {
  const hir::Region& condition = flat_.region(node.regions[0]);
  const hir::Region& body = flat_.region(node.regions[1]);
  const std::vector<int32_t> blocks = {open_block(true), open_block(true)};
  const std::vector<Window> carried = carry(node, index);

  int32_t outer = enter(blocks[0]);
  bind_parameters(condition, carried, index);
  ONRT_RETURN_IF_ERROR(lower_region(node.regions[0]));
  const Window predicate = window(condition.results[0]);
  release(condition.results[0]);
  leave(outer);

  // Only the body may change what it carries.
  set_loop(carried, blocks[1]);
  outer = enter(blocks[1]);
  bind_parameters(body, carried, index);
  const auto first_kernel = static_cast<int32_t>(plan_.kernels.size());
  ONRT_RETURN_IF_ERROR(lower_region(node.regions[1]));
  finish_region(body, carried, node, index, first_kernel);
  leave(outer);
  set_loop(carried, blocks_[static_cast<size_t>(outer)].loop);

  const int32_t number = add_kernel(KernelKind::kLoop, node);
  kernel(number).blocks = blocks;
  kernel(number).reads = {predicate};
  set_results(carried, index, number);
  return ok_status();
}

Status Lowerer::lower_branches(const Node& node, int32_t index) {
  const Window selector = window(node.operands[0]);
  release(node.operands[0]);
  std::vector<int32_t> blocks;
  for (size_t i = 0; i < node.regions.size(); ++i) {
    blocks.push_back(open_block(false));
  }
  BranchUses uses;
  for (size_t i = 0; i < blocks.size(); ++i) {
    count_uses(node.regions[i], i, blocks.size(), uses);
  }
  std::vector<BufferId> adopted;
  const std::vector<Window> results = result_buffers(node, index, uses, adopted);
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (const BufferId buffer : adopted) {  // only one of the branches runs
      buffers_[static_cast<size_t>(buffer)].pending = uses.at(buffer)[i];
    }
    const int32_t outer = enter(blocks[i]);
    const auto first_kernel = static_cast<int32_t>(plan_.kernels.size());
    ONRT_RETURN_IF_ERROR(lower_region(node.regions[i]));
    finish_region(flat_.region(node.regions[i]), results, node, index, first_kernel);
    leave(outer);
  }
  for (const BufferId buffer : adopted) {
    buffers_[static_cast<size_t>(buffer)].pending = 0;
  }
  const int32_t number = add_kernel(KernelKind::kIf, node);
  kernel(number).blocks = blocks;
  kernel(number).reads = {selector};
  set_results(results, index, number);
  return ok_status();
}

void Lowerer::count_uses(int32_t region, size_t branch, size_t branches, BranchUses& uses) const {
  const auto use = [&](Ref ref) {
    if (value(ref).window) {
      uses.try_emplace(value(ref).window->buffer, branches).first->second[branch] += 1;
    }
  };
  const auto is_used = [&](const Node& node, int32_t index, size_t k) {
    return node.opcode != hir::Opcode::kWhile || flat_.is_live({index, static_cast<int32_t>(k)});
  };
  for (const int32_t index : flat_.region(region).order) {
    const Node& node = flat_[index];
    for (size_t k = 0; k < node.operands.size(); ++k) {
      if (is_used(node, index, k)) {
        use(node.operands[k]);
      }
    }
    for (const int32_t inner : node.regions) {
      count_uses(inner, branch, branches, uses);
    }
  }
  const hir::Region& counted = flat_.region(region);
  for (size_t k = 0; k < counted.results.size(); ++k) {
    if (counted.kind == hir::RegionKind::kCondition ||
        flat_.is_live({counted.owner, static_cast<int32_t>(k)})) {
      use(counted.results[k]);
    }
  }
}

// Where the results go: to the memory of a value that only the branches use and that one of them
// gives back, changed in place or as it is; else to new memory.
std::vector<Window> Lowerer::result_buffers(const Node& node, int32_t index, const BranchUses& uses,
                                            std::vector<BufferId>& adopted) {
  std::vector<Window> results(node.results.size());
  for (size_t k = 0; k < results.size(); ++k) {
    if (!is_made({index, static_cast<int32_t>(k)})) {
      continue;
    }
    const Window candidate = options_.fuse ? adoptable(node, k) : Window{};
    const auto inside = uses.find(candidate.buffer);
    if (inside != uses.end() && std::ranges::find(adopted, candidate.buffer) == adopted.end()) {
      BufferState& state = buffers_[static_cast<size_t>(candidate.buffer)];
      const int64_t all = std::accumulate(inside->second.begin(), inside->second.end(), int64_t{0});
      // As if this conditional were the only use.
      const int64_t pending = std::exchange(state.pending, state.pending == all ? 1 : 0);
      if (may_overwrite(candidate)) {
        results[k] = candidate;
        adopted.push_back(candidate.buffer);
        state.updated = last_kernel() + 1;
        continue;
      }
      state.pending = pending;
    }
    results[k] = new_buffer(node.results[k]);
  }
  return results;
}

// The value from outside that a branch gives back as this result, changed or not; an empty window
// if there is none of the result's type that has memory.
Window Lowerer::adoptable(const Node& node, size_t result) {
  for (const int32_t branch : node.regions) {
    Ref at = flat_.region(branch).results[result];
    while (at.node >= 0 && flat_[at.node].region == branch) {
      const Node& inner = flat_[at.node];
      at =
          hir::updated_operands(inner) > 0 ? inner.operands[static_cast<size_t>(at.result)] : Ref{};
    }
    if (at.node >= 0 && value(at).window &&
        value(at).window->dims == Dims(node.results[result].dims) &&
        value(at).window->dtype == node.results[result].dtype) {
      return *value(at).window;
    }
  }
  return {};
}

void Lowerer::set_loop(std::span<const Window> windows, int32_t loop) {
  for (const Window& window : windows) {
    if (window.buffer >= 0) {
      buffers_[static_cast<size_t>(window.buffer)].loop = loop;
    }
  }
}

void Lowerer::set_results(std::span<const Window> windows, int32_t index, int32_t number) {
  for (size_t k = 0; k < windows.size(); ++k) {
    const Ref result{index, static_cast<int32_t>(k)};
    if (windows[k].buffer >= 0) {
      kernel(number).writes.push_back(windows[k]);
      set_window(result, windows[k], number);
    } else {
      set_window(result, new_buffer(type(result)), -1);
    }
  }
}

}  // namespace onrt::lowering
