// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/testing/mutate.h"

#include <algorithm>
#include <array>
#include <random>

namespace onrt::cc::testing {
namespace {

class Mutator {
 public:
  Mutator(Schedule& schedule, uint64_t seed) : schedule_(schedule), random_(seed) {}

  bool apply(Mutation mutation) {
    std::vector<std::array<size_t, 3>> places;
    for (size_t rank = 0; rank < schedule_.programs.size(); ++rank) {
      const auto& channels = schedule_.programs[rank].channels;
      for (size_t channel = 0; channel < channels.size(); ++channel) {
        for (size_t step = 0; step < channels[channel].size(); ++step) {
          if (fits(mutation, channels[channel], step)) {
            places.push_back({rank, channel, step});
          }
        }
      }
    }
    if (places.empty()) {
      return false;
    }
    const auto [rank, channel, step] = places[pick(places.size())];
    program_ = &schedule_.programs[rank];
    change(mutation, program_->channels[channel], step);
    return true;
  }

 private:
  uint64_t pick(uint64_t n) { return random_() % n; }

  static bool fits(Mutation mutation, const std::vector<Step>& steps, size_t index) {
    const Step& step = steps[index];
    switch (mutation) {
      case Mutation::kDropStep:
      case Mutation::kDoubleStep:
        return true;
      case Mutation::kSwapSteps:
        return index + 1 < steps.size();
      case Mutation::kMoveStep:
        return steps.size() > 2;
      case Mutation::kShiftOperand:
      case Mutation::kResizeStep:
      case Mutation::kRedirectOperand:
      case Mutation::kChangeBuffer:
        return moves_data(step.kind);
      case Mutation::kDropInput:
      case Mutation::kSwapInputs:
        return step.kind == StepKind::kReduce && step.inputs > 1;
      case Mutation::kDoubleInput:
        return step.kind == StepKind::kReduce;
      default:
        return step.kind == StepKind::kSignal || step.kind == StepKind::kWait;
    }
  }

  void change(Mutation mutation, std::vector<Step>& steps, size_t index) {
    Step& step = steps[index];
    const auto at = steps.begin() + static_cast<ptrdiff_t>(index);
    switch (mutation) {
      case Mutation::kDropStep:
        steps.erase(at);
        return;
      case Mutation::kDoubleStep:
        steps.insert(at, Step(step));
        return;
      case Mutation::kSwapSteps:
        std::swap(steps[index], steps[index + 1]);
        return;
      case Mutation::kMoveStep: {
        const Step moved = step;
        steps.erase(at);
        steps.insert(steps.begin() + static_cast<ptrdiff_t>(pick(steps.size() + 1)), moved);
        return;
      }
      case Mutation::kRedirectSync:
        step.peer = static_cast<int>(pick(static_cast<uint64_t>(schedule_.spec.ranks)));
        return;
      case Mutation::kChangeAmount:
        step.amount = static_cast<uint32_t>(pick(3));
        return;
      case Mutation::kChangeCounter:
        step.counter += 1 + static_cast<uint32_t>(pick(2));
        return;
      case Mutation::kResizeStep:
        step.count = pick(2) == 0 ? step.count + 1 + pick(3) : pick(step.count);
        return;
      default:
        change_operands(mutation, step);
        return;
    }
  }

  // The step gets operands of its own, so that no other step changes with it.
  void change_operands(Mutation mutation, Step& step) {
    const auto old = program_->operands.begin() + static_cast<ptrdiff_t>(step.first_operand);
    std::vector<Operand> operands(old, old + step.inputs + step.outputs);
    Operand& one = operands[pick(operands.size())];
    const size_t input = pick(step.inputs);
    switch (mutation) {
      case Mutation::kShiftOperand:
        one.offset += pick(2) == 0 || one.offset == 0 ? 1 + pick(4) : ~uint64_t{0};
        break;
      case Mutation::kRedirectOperand:
        one.rank = static_cast<int>(pick(static_cast<uint64_t>(schedule_.spec.ranks)));
        break;
      case Mutation::kChangeBuffer:
        one.buffer = static_cast<Buffer>(pick(4));
        break;
      case Mutation::kDropInput:
        operands.erase(operands.begin() + static_cast<ptrdiff_t>(input));
        step.inputs -= 1;
        break;
      case Mutation::kDoubleInput:
        operands.insert(operands.begin(), Operand(operands[input]));
        step.inputs += 1;
        break;
      default:
        std::swap(operands[input], operands[(input + 1) % step.inputs]);
        break;
    }
    step.first_operand = static_cast<uint32_t>(program_->operands.size());
    program_->operands.insert(program_->operands.end(), operands.begin(), operands.end());
  }

  Schedule& schedule_;
  std::mt19937_64 random_;
  RankProgram* program_ = nullptr;
};

// Steps and their operands, wherever these stand.
bool same_steps(const Schedule& a, const Schedule& b) {
  for (size_t rank = 0; rank < a.programs.size(); ++rank) {
    const RankProgram& left = a.programs[rank];
    const RankProgram& right = b.programs[rank];
    for (size_t channel = 0; channel < left.channels.size(); ++channel) {
      const auto same = [&](Step x, Step y) {
        const bool operands = std::ranges::equal(left.inputs(x), right.inputs(y)) &&
                              std::ranges::equal(left.step_outputs(x), right.step_outputs(y));
        x.first_operand = y.first_operand = 0;
        return operands && x == y;
      };
      if (!std::equal(left.channels[channel].begin(), left.channels[channel].end(),
                      right.channels[channel].begin(), right.channels[channel].end(), same)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

std::string_view mutation_name(Mutation mutation) {
  static constexpr std::array<std::string_view, kMutations> kNames = {
      "drop step",   "double step",      "swap steps",    "move step",     "shift operand",
      "resize step", "redirect operand", "change buffer", "drop input",    "double input",
      "swap inputs", "redirect sync",    "change amount", "change counter"};
  return kNames[static_cast<size_t>(mutation)];
}

bool mutate(Schedule& schedule, Mutation mutation, uint64_t seed) {
  const Schedule original = schedule;
  return Mutator(schedule, seed).apply(mutation) && !same_steps(original, schedule);
}

bool may_be_equivalent(Mutation mutation) {
  switch (mutation) {
    case Mutation::kDoubleStep:
    case Mutation::kSwapSteps:
    case Mutation::kMoveStep:
    case Mutation::kResizeStep:
    case Mutation::kSwapInputs:
    case Mutation::kRedirectOperand:
    case Mutation::kChangeBuffer:
      return true;
    default:
      return false;
  }
}

}  // namespace onrt::cc::testing
