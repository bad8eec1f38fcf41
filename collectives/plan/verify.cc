// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/verify.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <tuple>

#include "collectives/plan/check_result.h"
#include "collectives/plan/check_shape.h"
#include "collectives/plan/memory_map.h"
#include "collectives/plan/value_table.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

struct Lane {
  int rank = 0;
  int channel = 0;
  const std::vector<Step>* steps = nullptr;
  size_t next = 0;  // step
  Clock clock;
};

struct Signal {
  uint64_t total = 0;  // of the counter after it
  Clock clock;
};

struct Counter {
  uint64_t signalled = 0;
  uint64_t taken = 0;
  std::deque<Signal> signals;  // not taken yet
};

class AbstractRun {
 public:
  explicit AbstractRun(const Schedule& schedule)
      : schedule_(schedule),
        spec_(schedule.spec),
        n_(schedule.spec.ranks),
        alternate_(schedule.programs.front().alternate_scratch),
        values_(schedule.spec.ranks) {
    make_lanes();
    make_memory();
  }

  Verification run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t lane = 0; lane < lanes_.size(); ++lane) {
        while (can_go(lane)) {
          take_step(lane);
          moved = true;
        }
      }
      moved = pass_barriers() || moved;
    }
    check_finished();
    if (result_.ok()) {
      check_ends();
      for (Finding& finding : check_result(schedule_, memory_, values_)) {
        add(std::move(finding));
      }
    }
    return std::move(result_);
  }

 private:
  void make_lanes() {
    for (int rank = 0; rank < n_; ++rank) {
      const auto& channels = schedule_.programs[static_cast<size_t>(rank)].channels;
      first_lane_.push_back(lanes_.size());
      for (size_t channel = 0; channel < channels.size(); ++channel) {
        lanes_.push_back({rank, static_cast<int>(channel), &channels[channel], 0, {}});
      }
    }
    first_lane_.push_back(lanes_.size());
    for (Lane& lane : lanes_) {
      lane.clock.resize(lanes_.size());
    }
    last_touch_.assign(static_cast<size_t>(n_) * lanes_.size(), 0);
  }

  void make_memory() {
    for (int rank = 0; rank < n_; ++rank) {
      memory_.emplace_back();
      for (int region = 0; region < kRegions; ++region) {
        memory_.back().emplace_back(region_elements(schedule_, rank, static_cast<Region>(region)));
      }
      const uint64_t elements = in_elements(spec_, rank);
      if (elements > 0) {
        memory_.back().front().fill(placement(spec_, rank).in_base, elements,
                                    {values_.raw(rank), 0});
      }
    }
  }

  MemoryMap& memory(const Operand& operand, const Place& place) {
    return memory_[static_cast<size_t>(operand.rank)][static_cast<size_t>(place.region)];
  }

  void add(Finding finding) {
    if (result_.findings.size() < kMostFindings) {
      result_.findings.push_back(std::move(finding));
    }
  }

  void find(const Lane& lane, Mistake mistake, std::string text) {
    add({mistake, lane.rank, lane.channel, static_cast<int>(lane.next), std::move(text)});
  }

  Counter& counter(const Lane& lane, const Step& step) {
    const bool signals = step.kind == StepKind::kSignal;
    return counters_[{signals ? lane.rank : step.peer, signals ? step.peer : lane.rank,
                      step.counter}];
  }

  bool can_go(size_t index) {
    const Lane& lane = lanes_[index];
    if (lane.next == lane.steps->size()) {
      return false;
    }
    const Step& step = (*lane.steps)[lane.next];
    if (step.kind == StepKind::kWait) {
      const Counter& it = counter(lane, step);
      return it.taken + step.amount <= it.signalled;
    }
    return step.kind != StepKind::kBarrier;
  }

  static void join(Clock& clock, const Clock& other) {
    for (size_t i = 0; i < clock.size(); ++i) {
      clock[i] = std::max(clock[i], other[i]);
    }
  }

  void finish_step(size_t index) {
    Lane& lane = lanes_[index];
    lane.next += 1;
    lane.clock[index] = static_cast<uint32_t>(lane.next);
    result_.steps += 1;
  }

  void take_step(size_t index) {
    Lane& lane = lanes_[index];
    const Step& step = (*lane.steps)[lane.next];
    if (moves_data(step.kind)) {
      move_data(index, step);
      finish_step(index);
      return;
    }
    Counter& it = counter(lane, step);
    if (step.kind == StepKind::kWait) {
      it.taken += step.amount;
      while (!it.signals.empty() && it.signals.front().total < it.taken) {
        it.signals.pop_front();
      }
      join(lane.clock, it.signals.front().clock);
      if (it.signals.front().total == it.taken) {
        it.signals.pop_front();
      }
    }
    finish_step(index);
    if (step.kind == StepKind::kSignal) {
      it.signalled += step.amount;
      it.signals.push_back({it.signalled, lane.clock});
    }
  }

  // Channels all of whose ranks stand at a barrier.
  bool pass_barriers() {
    bool passed = false;
    for (int channel = 0; channel < kMaxChannels; ++channel) {
      std::vector<size_t> standing;
      for (size_t i = 0; i < lanes_.size(); ++i) {
        const Lane& lane = lanes_[i];
        if (lane.channel == channel && lane.next < lane.steps->size() &&
            (*lane.steps)[lane.next].kind == StepKind::kBarrier) {
          standing.push_back(i);
        }
      }
      if (standing.size() != static_cast<size_t>(n_)) {
        continue;
      }
      Clock all(lanes_.size());
      for (const size_t lane : standing) {
        finish_step(lane);
        join(all, lanes_[lane].clock);
      }
      for (const size_t lane : standing) {
        lanes_[lane].clock = all;
      }
      passed = true;
    }
    return passed;
  }

  void move_data(size_t index, const Step& step) {
    const Lane& lane = lanes_[index];
    const RankProgram& program = schedule_.programs[static_cast<size_t>(lane.rank)];
    const auto inputs = program.inputs(step);
    const auto outputs = program.step_outputs(step);
    result_.operands += inputs.size() + outputs.size();
    for (const Operand& input : inputs) {
      touch(index, step, input, false);
    }
    for (const Operand& output : outputs) {
      touch(index, step, output, true);
    }
    for (uint64_t done = 0; done < step.count;) {
      done += move_part(lane, step, inputs, outputs, done);
    }
  }

  void touch(size_t index, const Step& step, const Operand& operand, bool writes) {
    const Lane& lane = lanes_[index];
    const Place place = place_of(spec_, operand);
    const Touch now = {static_cast<uint32_t>(index), static_cast<uint32_t>(lane.next)};
    MemoryMap& map = memory(operand, place);
    const auto conflict = writes ? map.write(place.first, step.count, now, lane.clock)
                                 : map.read(place.first, step.count, now, lane.clock);
    if (conflict) {
      const Lane& other = lanes_[conflict->other.lane];
      find(lane, Mistake::kRace,
           format("{} {} of rank {} [{}, +{}) while rank {}, channel {}, step {} {} it",
                  writes ? "writes" : "reads", buffer_name(operand.buffer), operand.rank,
                  operand.offset + (std::max(conflict->first, place.first) - place.first),
                  conflict->count, other.rank, other.channel, conflict->other.step,
                  conflict->other_wrote ? "writes" : "reads"));
    }
    if (operand.rank == lane.rank) {
      return;
    }
    const bool user = operand.buffer == Buffer::kIn || operand.buffer == Buffer::kOut;
    if (!user && alternate_) {
      return;
    }
    if (!knows_of(lane.clock, operand.rank)) {
      find(lane, Mistake::kAccess,
           format("touches {} of rank {} before it is known to have entered",
                  buffer_name(operand.buffer), operand.rank));
    }
    last_touch_[static_cast<size_t>(operand.rank) * lanes_.size() + index] =
        static_cast<uint32_t>(lane.next) + 1;
  }

  // A step of `rank` has happened before.
  bool knows_of(const Clock& clock, int rank) const {
    const auto begin = static_cast<ptrdiff_t>(first_lane_[static_cast<size_t>(rank)]);
    const auto end = static_cast<ptrdiff_t>(first_lane_[static_cast<size_t>(rank) + 1]);
    return std::any_of(clock.begin() + begin, clock.begin() + end,
                       [](uint32_t steps) { return steps > 0; });
  }

  // Elements [done, ...) of the step up to where one operand's value changes; returns how many.
  uint64_t move_part(const Lane& lane, const Step& step, std::span<const Operand> inputs,
                     std::span<const Operand> outputs, uint64_t done) {
    uint64_t count = step.count - done;
    std::vector<Value> from;
    for (const Operand& input : inputs) {
      const Place place = place_of(spec_, input);
      MemoryMap& map = memory(input, place);
      map.cut(place.first + done);
      count = std::min(count, map.next_bound(place.first + done) - (place.first + done));
      from.push_back(map.at(place.first + done).value);
      if (from.back().id == ValueTable::kOld) {
        find(lane, Mistake::kUnwritten,
             format("reads {} of rank {} at {}, which nobody wrote", buffer_name(input.buffer),
                    input.rank, input.offset + done));
      }
    }
    Value value = from.front();
    if (step.kind == StepKind::kReduce) {
      value = fold(lane, inputs, outputs, from, done);
    }
    for (const Operand& output : outputs) {
      const Place place = place_of(spec_, output);
      memory(output, place).set(place.first + done, count, value);
    }
    return count;
  }

  Value fold(const Lane& lane, std::span<const Operand> inputs, std::span<const Operand> outputs,
             const std::vector<Value>& from, uint64_t done) {
    for (size_t i = 0; i < from.size(); ++i) {
      if (values_.node(from[i].id).complete) {
        find(lane, Mistake::kType,
             format("reduces {} of rank {} at {}, which is a final value already",
                    buffer_name(inputs[i].buffer), inputs[i].rank, inputs[i].offset + done));
      }
    }
    return values_.fold(from, outputs.front().buffer != Buffer::kPartial);
  }

  void check_finished() {
    for (const Lane& lane : lanes_) {
      if (lane.next == lane.steps->size()) {
        continue;
      }
      const Step& step = (*lane.steps)[lane.next];
      if (step.kind == StepKind::kBarrier) {
        find(lane, Mistake::kDeadlock, "stands at a barrier that not all ranks reach");
        continue;
      }
      const Counter& it = counter(lane, step);
      find(lane, Mistake::kDeadlock,
           format("waits for {} of rank {} (counter {}): {} of {} ever come", step.amount,
                  step.peer, step.counter, it.signalled - it.taken, step.amount));
    }
  }

  // What must hold between the operation and the next one.
  void check_ends() {
    for (int rank = 0; rank < n_; ++rank) {
      Clock end(lanes_.size());
      for (size_t lane = first_lane_[static_cast<size_t>(rank)];
           lane < first_lane_[static_cast<size_t>(rank) + 1]; ++lane) {
        join(end, lanes_[lane].clock);
      }
      check_visitors(rank, end);
      const bool barrier = spec_.op == Op::kBarrier;
      for (int other = 0; (alternate_ || barrier) && other < n_; ++other) {
        if (other != rank && !knows_of(end, other)) {
          add({barrier ? Mistake::kResult : Mistake::kRunAhead, rank, -1, -1,
               format("may leave before rank {} has entered", other)});
        }
      }
    }
  }

  void check_visitors(int rank, const Clock& end) {
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      const uint32_t touched = last_touch_[static_cast<size_t>(rank) * lanes_.size() + lane];
      if (end[lane] < touched) {
        add({Mistake::kAccess, lanes_[lane].rank, lanes_[lane].channel,
             static_cast<int>(touched) - 1,
             format("rank {} may have left when its memory is touched", rank)});
      }
    }
  }

  const Schedule& schedule_;
  const Spec& spec_;
  int n_;
  bool alternate_;
  ValueTable values_;
  std::vector<Lane> lanes_;
  std::vector<size_t> first_lane_;
  std::vector<std::vector<MemoryMap>> memory_;  // [rank][region]
  std::map<std::tuple<int, int, uint32_t>, Counter> counters_;
  std::vector<uint32_t> last_touch_;  // [owner][lane]: steps up to the last one that touched it
  Verification result_;
};

constexpr std::array<std::string_view, 11> kMistakeNames = {
    "malformed", "bounds", "access", "aliasing", "type",     "unwritten",
    "deadlock",  "race",   "result", "order",    "run-ahead"};

}  // namespace

std::string_view mistake_name(Mistake mistake) {
  return kMistakeNames[static_cast<size_t>(mistake)];
}

std::string finding_text(const Finding& finding) {
  std::string where;
  if (finding.rank >= 0) {
    where = format("rank {}", finding.rank);
  }
  if (finding.channel >= 0) {
    where += format(", channel {}", finding.channel);
  }
  if (finding.step >= 0) {
    where += format(", step {}", finding.step);
  }
  return format("{}{}{} ({})", where, where.empty() ? "" : ": ", finding.text,
                mistake_name(finding.mistake));
}

Verification verify(const Schedule& schedule) {
  Verification result;
  result.findings = check_shape(schedule);
  return result.ok() ? AbstractRun(schedule).run() : result;
}

Status check_schedule(const Schedule& schedule) {
  const Verification result = verify(schedule);
  if (result.ok()) {
    return {};
  }
  return {NRT_INVALID,
          format("schedule of {} ({}, {} ranks): {}", op_name(schedule.spec.op), schedule.algorithm,
                 schedule.spec.ranks, finding_text(result.findings.front()))};
}

}  // namespace onrt::cc
