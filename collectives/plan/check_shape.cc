// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/check_shape.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

// More than any schedule of ours has; bounds what an imported one may cost.
constexpr uint64_t kLargestScratch = 1ULL << 56;

// 2 GiB of clocks: 256 ranks of a ring, or 64 of one with 32 channels.
constexpr uint64_t kMostClockEntries = 1ULL << 29;

uint64_t buffer_elements(const Schedule& schedule, const Operand& operand) {
  const RankProgram& program = schedule.programs[static_cast<size_t>(operand.rank)];
  switch (operand.buffer) {
    case Buffer::kIn:
      return in_elements(schedule.spec, operand.rank);
    case Buffer::kOut:
      return out_elements(schedule.spec, operand.rank);
    case Buffer::kScratch:
      return program.scratch_elements;
    default:
      return program.partial_elements;
  }
}

struct Counter {
  std::optional<int> signals_channel;
  std::optional<int> waits_channel;
  uint64_t signalled = 0;
  uint64_t awaited = 0;
};

class ShapeCheck {
 public:
  explicit ShapeCheck(const Schedule& schedule)
      : schedule_(schedule), spec_(schedule.spec), n_(schedule.spec.ranks) {}

  std::vector<Finding> run() {
    if (const Status status = check_spec(spec_); !status.ok()) {
      find(Mistake::kMalformed, std::string(status.message()));
      return std::move(findings_);
    }
    if (schedule_.programs.size() != static_cast<size_t>(n_)) {
      find(Mistake::kMalformed,
           format("expected {} programs, found {}", n_, schedule_.programs.size()));
      return std::move(findings_);
    }
    for (rank_ = 0; rank_ < n_; ++rank_) {
      check_program();
    }
    rank_ = channel_ = step_ = -1;
    check_cost();
    check_counters();
    check_barriers();
    return std::move(findings_);
  }

 private:
  void find(Mistake mistake, std::string text) {
    if (findings_.size() < kMostFindings) {
      findings_.push_back({mistake, rank_, channel_, step_, std::move(text)});
    }
  }

  const RankProgram& program() const { return schedule_.programs[static_cast<size_t>(rank_)]; }

  void check_program() {
    channel_ = step_ = -1;
    if (program().channels.size() > static_cast<size_t>(kMaxChannels)) {
      return find(Mistake::kMalformed, format("expected at most {} channels, found {}",
                                              kMaxChannels, program().channels.size()));
    }
    if (program().scratch_elements > kLargestScratch ||
        program().partial_elements > kLargestScratch) {
      return find(Mistake::kBounds, "scratch memory larger than any memory");
    }
    if (program().alternate_scratch != schedule_.programs.front().alternate_scratch) {
      find(Mistake::kMalformed, "alternate_scratch differs from rank 0's");
    }
    for (channel_ = 0; channel_ < static_cast<int>(program().channels.size()); ++channel_) {
      const auto& steps = program().channels[static_cast<size_t>(channel_)];
      for (step_ = 0; step_ < static_cast<int>(steps.size()); ++step_) {
        check_step(steps[static_cast<size_t>(step_)]);
      }
    }
    channel_ = step_ = -1;
  }

  void check_step(const Step& step) {
    if (step.kind > StepKind::kBarrier) {
      return find(Mistake::kMalformed, "no such kind of step");
    }
    if (moves_data(step.kind)) {
      return check_data_step(step);
    }
    if (step.inputs != 0 || step.outputs != 0 || step.count != 0) {
      find(Mistake::kMalformed, format("{} takes no operands", step_kind_name(step.kind)));
    }
    if (step.kind == StepKind::kBarrier) {
      return;
    }
    if (step.peer < 0 || step.peer >= n_) {
      return find(Mistake::kMalformed,
                  format("peer: expected 0 to {}, found {}", n_ - 1, step.peer));
    }
    if (step.amount == 0) {
      find(Mistake::kMalformed, format("{} of amount 0", step_kind_name(step.kind)));
    }
    note_counter(step);
  }

  void note_counter(const Step& step) {
    const bool signals = step.kind == StepKind::kSignal;
    const int from = signals ? rank_ : step.peer;
    const int to = signals ? step.peer : rank_;
    Counter& counter = counters_[{from, to, step.counter}];
    auto& user = signals ? counter.signals_channel : counter.waits_channel;
    if (user && *user != channel_) {
      find(Mistake::kMalformed,
           format("counter {} from rank {} to rank {} belongs to channel {} already", step.counter,
                  from, to, *user));
    }
    user = channel_;
    (signals ? counter.signalled : counter.awaited) += step.amount;
  }

  void check_data_step(const Step& step) {
    const uint64_t operands = program().operands.size();
    if (step.first_operand > operands || step.inputs > operands - step.first_operand ||
        step.outputs > operands - step.first_operand - step.inputs) {
      return find(Mistake::kMalformed, "operands beyond the end of the program's list");
    }
    if (step.count == 0) {
      return find(Mistake::kMalformed, "moves nothing");
    }
    const bool one = step.kind == StepKind::kCopy || step.kind == StepKind::kGet;
    const bool reduces = step.kind == StepKind::kReduce;
    if (step.inputs == 0 || (!reduces && step.inputs != 1) || step.outputs == 0 ||
        (one && step.outputs != 1)) {
      return find(Mistake::kMalformed,
                  format("{} of {} inputs and {} outputs", step_kind_name(step.kind), step.inputs,
                         step.outputs));
    }
    if (reduces && !op_reduces(spec_.op)) {
      find(Mistake::kType, format("{} reduces nothing", op_name(spec_.op)));
    }
    bool fine = true;
    for (const Operand& input : program().inputs(step)) {
      fine = check_operand(step, input, false) && fine;
    }
    for (const Operand& output : program().step_outputs(step)) {
      fine = check_operand(step, output, true) && fine;
    }
    if (fine) {
      check_owners(step);
      check_types(step);
      check_overlap(step);
    }
  }

  bool check_operand(const Step& step, const Operand& operand, bool is_output) {
    if (operand.rank < 0 || operand.rank >= n_ || operand.buffer > Buffer::kPartial) {
      find(Mistake::kMalformed,
           format("operand of rank {}: expected ranks 0 to {}", operand.rank, n_ - 1));
      return false;
    }
    const uint64_t size = buffer_elements(schedule_, operand);
    if (operand.offset > size || step.count > size - operand.offset) {
      find(Mistake::kBounds,
           format("{} of rank {}: [{}, +{}) is beyond its {} elements", buffer_name(operand.buffer),
                  operand.rank, operand.offset, step.count, size));
      return false;
    }
    if (is_output && operand.buffer == Buffer::kIn) {
      find(Mistake::kAccess, format("writes in of rank {}", operand.rank));
    }
    const bool user = operand.buffer == Buffer::kIn || operand.buffer == Buffer::kOut;
    if (user && operand.rank != rank_ && spec_.access == Access::kStaged) {
      find(Mistake::kAccess, format("{} of rank {} is private (staged access)",
                                    buffer_name(operand.buffer), operand.rank));
    }
    return true;
  }

  void check_owners(const Step& step) {
    const auto inputs = program().inputs(step);
    const auto outputs = program().step_outputs(step);
    const auto here = [&](const Operand& operand) { return operand.rank == rank_; };
    const bool reads_here = std::all_of(inputs.begin(), inputs.end(), here);
    const bool writes_here = std::all_of(outputs.begin(), outputs.end(), here);
    const bool fits = step.kind == StepKind::kReduce ||
                      (step.kind == StepKind::kCopy && reads_here && writes_here) ||
                      (step.kind == StepKind::kPut && reads_here && !writes_here) ||
                      (step.kind == StepKind::kGet && !reads_here && writes_here);
    if (!fits) {
      find(Mistake::kMalformed,
           format("{} whose operands are not where it needs them", step_kind_name(step.kind)));
    }
  }

  void check_types(const Step& step) {
    const auto wide = [](const Operand& operand) { return operand.buffer == Buffer::kPartial; };
    const auto outputs = program().step_outputs(step);
    const bool to_wide = wide(outputs.front());
    const bool mixed = !std::all_of(outputs.begin(), outputs.end(),
                                    [&](const Operand& output) { return wide(output) == to_wide; });
    if (mixed ||
        (step.kind != StepKind::kReduce && wide(program().inputs(step).front()) != to_wide)) {
      find(Mistake::kType,
           format("{} between elements and partial results", step_kind_name(step.kind)));
    }
  }

  void check_overlap(const Step& step) {
    const auto inputs = program().inputs(step);
    const auto outputs = program().step_outputs(step);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Place out = place_of(spec_, outputs[i]);
      const auto overlaps = [&](const Operand& other, const Place& at) {
        return other.rank == outputs[i].rank && at.region == out.region &&
               at.first < out.first + step.count && out.first < at.first + step.count;
      };
      for (const Operand& input : inputs) {
        const Place in = place_of(spec_, input);
        const bool exact = in.first == out.first && step.kind == StepKind::kReduce;
        if (overlaps(input, in) && !exact) {
          return find(Mistake::kAliasing,
                      format("output {} of rank {} at {} overlaps an input",
                             buffer_name(outputs[i].buffer), outputs[i].rank, outputs[i].offset));
        }
      }
      for (size_t j = 0; j < i; ++j) {
        if (overlaps(outputs[j], place_of(spec_, outputs[j]))) {
          return find(Mistake::kAliasing, format("outputs of rank {} overlap", outputs[i].rank));
        }
      }
    }
  }

  // The abstract run keeps a clock of all lanes for each lane and signal.
  void check_cost() {
    uint64_t lanes = 0;
    uint64_t signals = 0;
    for (const RankProgram& it : schedule_.programs) {
      lanes += it.channels.size();
      for (const auto& steps : it.channels) {
        signals +=
            static_cast<uint64_t>(std::count_if(steps.begin(), steps.end(), [](const Step& step) {
              return step.kind == StepKind::kSignal;
            }));
      }
    }
    if (lanes * (lanes + signals) > kMostClockEntries) {
      find(Mistake::kMalformed,
           format("too large to verify: {} channels of all ranks, {} signals", lanes, signals));
    }
  }

  void check_counters() {
    for (const auto& [key, counter] : counters_) {
      if (counter.signalled != counter.awaited) {
        const auto& [from, to, number] = key;
        find(Mistake::kMalformed,
             format("counter {} from rank {} to rank {}: {} signals, {} awaited", number, from, to,
                    counter.signalled, counter.awaited));
      }
    }
  }

  void check_barriers() {
    for (int channel = 0; channel < kMaxChannels; ++channel) {
      std::optional<int64_t> expected;
      for (int rank = 0; rank < n_; ++rank) {
        const auto& channels = schedule_.programs[static_cast<size_t>(rank)].channels;
        int64_t found = 0;
        if (static_cast<size_t>(channel) < channels.size()) {
          const auto& steps = channels[static_cast<size_t>(channel)];
          found = std::count_if(steps.begin(), steps.end(),
                                [](const Step& step) { return step.kind == StepKind::kBarrier; });
        }
        if (!expected) {
          expected = found;
        } else if (*expected != found) {
          find(Mistake::kMalformed, format("channel {}: rank 0 has {} barriers, rank {} has {}",
                                           channel, *expected, rank, found));
          break;
        }
      }
    }
  }

  const Schedule& schedule_;
  const Spec& spec_;
  int n_;
  int rank_ = -1;
  int channel_ = -1;
  int step_ = -1;
  std::map<std::tuple<int, int, uint32_t>, Counter> counters_;
  std::vector<Finding> findings_;
};

}  // namespace

Place place_of(const Spec& spec, const Operand& operand) {
  const Placement place = placement(spec, operand.rank);
  switch (operand.buffer) {
    case Buffer::kIn:
      return {Region::kUser, operand.offset + place.in_base};
    case Buffer::kOut:
      return {place.shared ? Region::kUser : Region::kOut, operand.offset + place.out_base};
    case Buffer::kScratch:
      return {Region::kScratch, operand.offset};
    default:
      return {Region::kPartial, operand.offset};
  }
}

uint64_t region_elements(const Schedule& schedule, int rank, Region region) {
  const Placement place = placement(schedule.spec, rank);
  const uint64_t in = in_elements(schedule.spec, rank);
  const uint64_t out = out_elements(schedule.spec, rank);
  switch (region) {
    case Region::kUser:
      return place.shared ? std::max(place.in_base + in, place.out_base + out) : in;
    case Region::kOut:
      return place.shared ? 0 : out;
    case Region::kScratch:
      return schedule.programs[static_cast<size_t>(rank)].scratch_elements;
    default:
      return schedule.programs[static_cast<size_t>(rank)].partial_elements;
  }
}

std::vector<Finding> check_shape(const Schedule& schedule) { return ShapeCheck(schedule).run(); }

}  // namespace onrt::cc
