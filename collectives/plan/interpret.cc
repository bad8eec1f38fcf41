// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/interpret.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <tuple>

#include "collectives/plan/check_shape.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

struct Lane {
  int rank = 0;
  int channel = 0;
  const std::vector<Step>* steps = nullptr;
  size_t next = 0;
  uint64_t done = 0;  // elements of the step
};

struct Counter {
  uint64_t signalled = 0;
  uint64_t taken = 0;
};

class Interpreter {
 public:
  Interpreter(const Schedule& schedule, std::span<RankMemory> memory, const ReduceFunction& reduce,
              uint64_t seed, uint64_t slice)
      : schedule_(schedule),
        spec_(schedule.spec),
        memory_(memory),
        reduce_(reduce),
        random_(seed),
        slice_(slice) {
    for (int rank = 0; rank < spec_.ranks; ++rank) {
      const auto& channels = schedule.programs[static_cast<size_t>(rank)].channels;
      for (size_t channel = 0; channel < channels.size(); ++channel) {
        lanes_.push_back({rank, static_cast<int>(channel), &channels[channel]});
      }
    }
  }

  Status run() {
    std::vector<size_t> able;
    while (true) {
      able.clear();
      for (size_t i = 0; i < lanes_.size(); ++i) {
        if (can_go(lanes_[i])) {
          able.push_back(i);
        }
      }
      if (able.empty()) {
        return ended();
      }
      // One of them for a while: long and short bursts reach different interleavings.
      Lane& lane = lanes_[able[random_() % able.size()]];
      for (uint64_t burst = 1 + random_() % 4; burst > 0 && can_go(lane); --burst) {
        go(lane);
      }
    }
  }

 private:
  const Step& step(const Lane& lane) const { return (*lane.steps)[lane.next]; }
  bool over(const Lane& lane) const { return lane.next == lane.steps->size(); }

  Counter& counter(const Lane& lane) {
    const Step& it = step(lane);
    const bool signals = it.kind == StepKind::kSignal;
    return counters_[{signals ? lane.rank : it.peer, signals ? it.peer : lane.rank, it.counter}];
  }

  bool at_barrier(const Lane& lane, int channel) const {
    return lane.channel == channel && !over(lane) && step(lane).kind == StepKind::kBarrier;
  }

  bool can_go(const Lane& lane) {
    if (over(lane)) {
      return false;
    }
    if (step(lane).kind == StepKind::kWait) {
      const Counter& it = counter(lane);
      return it.taken + step(lane).amount <= it.signalled;
    }
    if (step(lane).kind != StepKind::kBarrier) {
      return true;
    }
    return std::count_if(lanes_.begin(), lanes_.end(), [&](const Lane& other) {
             return at_barrier(other, lane.channel);
           }) == spec_.ranks;
  }

  void go(Lane& lane) {
    switch (step(lane).kind) {
      case StepKind::kSignal:
        counter(lane).signalled += step(lane).amount;
        break;
      case StepKind::kWait:
        counter(lane).taken += step(lane).amount;
        break;
      case StepKind::kBarrier: {
        const int channel = lane.channel;
        for (Lane& other : lanes_) {
          other.next += at_barrier(other, channel) ? 1 : 0;
        }
        return;
      }
      default:
        move_part(lane);
        if (lane.done < step(lane).count) {
          return;
        }
        lane.done = 0;
        break;
    }
    lane.next += 1;
  }

  std::byte* address(const Operand& operand, uint64_t done) {
    RankMemory& rank = memory_[static_cast<size_t>(operand.rank)];
    const Place place = place_of(spec_, operand);
    const uint64_t at = place.first + done;
    switch (place.region) {
      case Region::kUser:
        return rank.in.data() + at * spec_.element_bytes;
      case Region::kOut:
        return rank.out.data() + at * spec_.element_bytes;
      case Region::kScratch:
        return rank.scratch.data() + at * spec_.element_bytes;
      default:
        return rank.partial.data() + at * spec_.partial_bytes;
    }
  }

  void move_part(Lane& lane) {
    const Step& it = step(lane);
    const RankProgram& program = schedule_.programs[static_cast<size_t>(lane.rank)];
    const auto inputs = program.inputs(it);
    const auto outputs = program.step_outputs(it);
    const uint64_t left = it.count - lane.done;
    const uint64_t count = slice_ == 0 ? left : std::min(left, slice_);
    const bool wide = outputs.front().buffer == Buffer::kPartial;
    const size_t bytes = count * (wide ? spec_.partial_bytes : spec_.element_bytes);
    std::vector<std::byte> result(bytes);
    if (it.kind == StepKind::kReduce) {
      std::vector<ReduceOperand> operands;
      for (const Operand& input : inputs) {
        operands.push_back({address(input, lane.done), input.buffer == Buffer::kPartial});
      }
      reduce_(operands, result.data(), !wide, count);
    } else {
      std::memcpy(result.data(), address(inputs.front(), lane.done), bytes);
    }
    for (const Operand& output : outputs) {
      std::memcpy(address(output, lane.done), result.data(), bytes);
    }
    lane.done += count;
  }

  Status ended() {
    std::string waiting;
    for (Lane& lane : lanes_) {
      if (!over(lane)) {
        const Step& it = step(lane);
        waiting += format("{}rank {}, channel {}, step {}: {}", waiting.empty() ? "" : "; ",
                          lane.rank, lane.channel, lane.next,
                          it.kind == StepKind::kBarrier ? std::string("at a barrier")
                                                        : format("waits for rank {}", it.peer));
      }
    }
    return waiting.empty() ? Status() : Status(NRT_FAILURE, "nothing can go on: " + waiting);
  }

  const Schedule& schedule_;
  const Spec& spec_;
  std::span<RankMemory> memory_;
  const ReduceFunction& reduce_;
  std::mt19937_64 random_;
  uint64_t slice_;
  std::vector<Lane> lanes_;
  std::map<std::tuple<int, int, uint32_t>, Counter> counters_;
};

}  // namespace

std::vector<RankMemory> make_memory(const Schedule& schedule, std::byte fill) {
  std::vector<RankMemory> memory(static_cast<size_t>(schedule.spec.ranks));
  for (int rank = 0; rank < schedule.spec.ranks; ++rank) {
    RankMemory& it = memory[static_cast<size_t>(rank)];
    const uint64_t bytes = schedule.spec.element_bytes;
    it.in.assign(region_elements(schedule, rank, Region::kUser) * bytes, fill);
    it.out.assign(region_elements(schedule, rank, Region::kOut) * bytes, fill);
    it.scratch.assign(region_elements(schedule, rank, Region::kScratch) * bytes, fill);
    it.partial.assign(
        region_elements(schedule, rank, Region::kPartial) * schedule.spec.partial_bytes, fill);
  }
  return memory;
}

Status interpret(const Schedule& schedule, std::span<RankMemory> memory,
                 const ReduceFunction& reduce, uint64_t seed, uint64_t slice) {
  return Interpreter(schedule, memory, reduce, seed, slice).run();
}

}  // namespace onrt::cc
