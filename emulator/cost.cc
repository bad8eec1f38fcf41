// SPDX-License-Identifier: Apache-2.0
#include "emulator/cost.h"

#include <algorithm>
#include <vector>

#include "emulator/timing.h"

namespace onrt {
namespace {

struct BlockCost {
  std::array<uint64_t, ncx::kEngines> busy_ns{};
  uint64_t dma_busy_ns = 0;
  uint64_t hbm_bytes = 0;
  double flops = 0;

  void add(const BlockCost& other) {
    for (size_t e = 0; e < busy_ns.size(); ++e) {
      busy_ns[e] += other.busy_ns[e];
    }
    dma_busy_ns += other.dma_busy_ns;
    hbm_bytes += other.hbm_bytes;
    flops += other.flops;
  }
};

// Of one block, given those of the blocks that it names: they have higher numbers.
BlockCost block_cost(const ncx::Program& program, uint32_t block, const Timeline& timeline,
                     const std::vector<BlockCost>& nested) {
  const TimingModel& model = TimingModel::of(program.core_version);
  BlockCost total;
  for (const ncx::Instruction& instruction : program.blocks[block].instructions) {
    const InstructionCost cost = cost_of(instruction, model);
    total.busy_ns[static_cast<size_t>(instruction.engine)] += static_cast<uint64_t>(cost.engine_ns);
    total.dma_busy_ns += static_cast<uint64_t>(cost.dma_ns);
    total.hbm_bytes += cost.dma_bytes;
    total.flops += cost.flops;
    if (const auto* loop = std::get_if<ncx::Loop>(&instruction.payload)) {
      total.add(nested[loop->condition]);
      total.add(nested[loop->body]);
    } else if (const auto* branch = std::get_if<ncx::If>(&instruction.payload)) {
      const auto longer = [&](uint32_t a, uint32_t b) {
        return timeline.blocks[a].device_ns < timeline.blocks[b].device_ns;
      };
      total.add(nested[*std::ranges::max_element(branch->branches, longer)]);
    } else if (const auto* call = std::get_if<ncx::Call>(&instruction.payload)) {
      total.add(nested[call->block]);
    }
  }
  return total;
}

}  // namespace

ProgramCost cost_of(const ncx::Program& program, const Timeline& timeline) {
  ProgramCost made;
  std::vector<BlockCost> blocks(program.blocks.size());
  for (size_t i = blocks.size(); i-- > 0;) {
    blocks[i] = block_cost(program, static_cast<uint32_t>(i), timeline, blocks);
    made.has_loops |= std::ranges::any_of(
        program.blocks[i].instructions, [](const ncx::Instruction& instruction) {
          return std::holds_alternative<ncx::Loop>(instruction.payload);
        });
  }
  const BlockCost& main = blocks[0];
  made.device_ns = timeline.device_ns;
  made.busy_ns = main.busy_ns;
  made.dma_busy_ns = main.dma_busy_ns;
  made.hbm_bytes = main.hbm_bytes;
  made.flops = main.flops;
  made.constant_bytes = program.constants_bytes;
  made.scratch_bytes = program.scratch_bytes;
  return made;
}

}  // namespace onrt
