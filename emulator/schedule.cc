// SPDX-License-Identifier: Apache-2.0
#include "emulator/schedule.h"

#include <algorithm>
#include <cmath>

#include "emulator/timing.h"
#include "runtime/base/format.h"

namespace onrt {
namespace {

using ncx::Instruction;

constexpr uint64_t kNotYet = UINT64_MAX;
constexpr uint64_t kLatest = uint64_t{1} << 62;  // times of absurd programs stop here

// When a semaphore had which value. Times ascend.
struct SemaphoreHistory {
  struct Point {
    uint64_t time;
    uint64_t value;
  };
  std::vector<Point> points;

  void add(uint64_t time, uint64_t amount) {
    auto at = points.end();
    while (at != points.begin() && (at - 1)->time > time) {
      --at;
    }
    const uint64_t before = at == points.begin() ? 0 : (at - 1)->value;
    at = points.insert(at, {time, before});
    for (; at != points.end(); ++at) {
      at->value += amount;
    }
  }
  // First time at which the value is at least `value`.
  uint64_t reaches(uint64_t value) const {
    if (value == 0) {
      return 0;
    }
    const auto at =
        std::lower_bound(points.begin(), points.end(), value,
                         [](const Point& point, uint64_t wanted) { return point.value < wanted; });
    return at == points.end() ? kNotYet : at->time;
  }
  uint64_t last() const { return points.empty() ? 0 : points.back().value; }
};

// Simulates one block. Each engine starts its instructions in order; the DMA engines are one
// resource that serves transfers in the order of their instructions.
class BlockSimulation {
 public:
  BlockSimulation(const ncx::Program& program, uint32_t block, const Timeline& nested)
      : program_(program),
        block_(block),
        nested_(nested),
        model_(TimingModel::of(program.core_version)),
        semaphores_(program.semaphores) {
    const auto& instructions = program.blocks[block].instructions;
    for (uint32_t i = 0; i < instructions.size(); ++i) {
      streams_[static_cast<size_t>(instructions[i].engine)].push_back(i);
    }
    out_.entries.reserve(instructions.size());
  }

  Result<BlockTimeline> run() {
    const size_t total = program_.blocks[block_].instructions.size();
    while (out_.entries.size() < total) {
      int best = -1;
      uint64_t best_start = kNotYet;
      for (int engine = 0; engine < ncx::kEngines; ++engine) {
        const uint64_t start = earliest_start(engine);
        if (start < best_start) {
          best = engine;
          best_start = start;
        }
      }
      if (best < 0) {
        return deadlock();
      }
      issue(best, best_start);
    }
    return std::move(out_);
  }

  const std::array<uint64_t, ncx::kEngines>& busy_ns() const { return busy_ns_; }
  uint64_t dma_busy_ns() const { return dma_busy_ns_; }

 private:
  const Instruction& head(int engine) const {
    const auto e = static_cast<size_t>(engine);
    return program_.blocks[block_].instructions[streams_[e][next_[e]]];
  }
  bool finished(int engine) const {
    const auto e = static_cast<size_t>(engine);
    return next_[e] == streams_[e].size();
  }

  uint64_t earliest_start(int engine) const {
    if (finished(engine)) {
      return kNotYet;
    }
    uint64_t start = engine_free_[static_cast<size_t>(engine)];
    for (const ncx::SemaphoreWait& wait : head(engine).waits) {
      const uint64_t when = semaphores_[wait.semaphore].reaches(wait.value);
      if (when == kNotYet) {
        return kNotYet;
      }
      start = std::max(start, when);
    }
    return start;
  }

  void issue(int engine, uint64_t start) {
    const auto e = static_cast<size_t>(engine);
    const uint32_t index = streams_[e][next_[e]++];
    const Instruction& instruction = program_.blocks[block_].instructions[index];
    const InstructionCost cost = cost_of(instruction, model_);
    uint64_t end = std::min(start + to_ns(cost.engine_ns) + nested_ns(instruction), kLatest);
    busy_ns_[e] = std::min(busy_ns_[e] + (end - start), kLatest);
    if (cost.dma_bytes > 0) {
      const uint64_t dma_start = std::max(start, dma_free_);
      const uint64_t dma_ns = to_ns(cost.dma_ns);
      dma_free_ = std::min(dma_start + dma_ns, kLatest);
      dma_busy_ns_ = std::min(dma_busy_ns_ + dma_ns, kLatest);
      end = std::max(end, dma_free_);
    }
    end = std::min(end, kLatest);
    engine_free_[e] = end;
    for (const ncx::SemaphoreIncrement& increment : instruction.increments) {
      semaphores_[increment.semaphore].add(end, increment.value);
    }
    out_.entries.push_back({block_, index, instruction.engine, start, end, cost.dma_bytes});
    out_.device_ns = std::max(out_.device_ns, end);
  }

  // At least 1, so that what waits for an instruction starts later than it.
  static uint64_t to_ns(double ns) {
    return static_cast<uint64_t>(std::clamp(std::ceil(ns), 1.0, 1e17));
  }

  uint64_t nested_ns(const Instruction& instruction) const {
    const auto block_ns = [&](uint32_t block) { return nested_.blocks[block].device_ns; };
    uint64_t ns = 0;
    if (const auto* loop = std::get_if<ncx::Loop>(&instruction.payload)) {
      ns = block_ns(loop->condition) + block_ns(loop->body);
    } else if (const auto* branch = std::get_if<ncx::If>(&instruction.payload)) {
      for (const uint32_t block : branch->branches) {
        ns = std::max(ns, block_ns(block));
      }
    } else if (const auto* call = std::get_if<ncx::Call>(&instruction.payload)) {
      ns = block_ns(call->block);
    }
    return std::min(ns, kLatest);
  }

  Status deadlock() const {
    std::string waiting;
    for (int engine = 0; engine < ncx::kEngines; ++engine) {
      if (finished(engine)) {
        continue;
      }
      const auto e = static_cast<size_t>(engine);
      const Instruction& instruction = head(engine);
      waiting += format("{}instruction {}", waiting.empty() ? "" : ", ", streams_[e][next_[e]]);
      if (instruction.name < program_.names.size()) {
        waiting += format(" ({})", program_.names[instruction.name]);
      }
      for (const ncx::SemaphoreWait& wait : instruction.waits) {
        const uint64_t value = semaphores_[wait.semaphore].last();
        if (value < wait.value) {
          waiting +=
              format(" for semaphore {} >= {} (reaches {})", wait.semaphore, wait.value, value);
        }
      }
    }
    return Status(NRT_INVALID,
                  format("NCX block {}: deadlock: {} would wait forever", block_, waiting));
  }

  const ncx::Program& program_;
  uint32_t block_;
  const Timeline& nested_;  // blocks after this one are done
  const TimingModel& model_;
  std::vector<SemaphoreHistory> semaphores_;
  std::array<std::vector<uint32_t>, ncx::kEngines> streams_;
  std::array<size_t, ncx::kEngines> next_{};
  std::array<uint64_t, ncx::kEngines> engine_free_{};
  std::array<uint64_t, ncx::kEngines> busy_ns_{};
  uint64_t dma_free_ = 0;
  uint64_t dma_busy_ns_ = 0;
  BlockTimeline out_;
};

}  // namespace

Result<Timeline> schedule(const ncx::Program& program) {
  Timeline timeline;
  timeline.blocks.resize(program.blocks.size());
  // Nested blocks have higher numbers than those that name them.
  for (size_t i = program.blocks.size(); i-- > 0;) {
    BlockSimulation simulation(program, static_cast<uint32_t>(i), timeline);
    ONRT_ASSIGN_OR_RETURN(timeline.blocks[i], simulation.run());
    if (i == 0) {
      timeline.device_ns = timeline.blocks[0].device_ns;
      timeline.busy_ns = simulation.busy_ns();
      timeline.dma_busy_ns = simulation.dma_busy_ns();
    }
  }
  for (const TimelineEntry& entry : timeline.blocks[0].entries) {
    timeline.dma_bytes += entry.dma_bytes;
  }
  return timeline;
}

}  // namespace onrt
