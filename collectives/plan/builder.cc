// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/builder.h"

#include <algorithm>
#include <array>

namespace onrt::cc {

ProgramBuilder::ProgramBuilder(const Spec& spec, int rank) : spec_(spec), rank_(rank) {
  program_.channels.resize(1);
}

void ProgramBuilder::use_channel(int channel) {
  channel_ = channel;
  if (program_.channels.size() <= static_cast<size_t>(channel)) {
    program_.channels.resize(static_cast<size_t>(channel) + 1);
  }
}

bool ProgramBuilder::same_place(const Operand& a, const Operand& b) const {
  if (a == b) {
    return true;
  }
  const Placement place = placement(spec_, a.rank);
  const auto user = [](Buffer buffer) { return buffer == Buffer::kIn || buffer == Buffer::kOut; };
  if (a.rank != b.rank || !place.shared || !user(a.buffer) || !user(b.buffer)) {
    return false;
  }
  const auto at = [&](const Operand& operand) {
    return operand.offset + (operand.buffer == Buffer::kIn ? place.in_base : place.out_base);
  };
  return at(a) == at(b);
}

void ProgramBuilder::move(Operand from, Operand to, uint64_t count) {
  move(from, std::span(&to, 1), count);
}

void ProgramBuilder::move(Operand from, std::span<const Operand> to, uint64_t count) {
  std::vector<Operand> targets;
  std::copy_if(to.begin(), to.end(), std::back_inserter(targets),
               [&](const Operand& target) { return !same_place(from, target); });
  if (targets.empty()) {
    return;
  }
  const auto elsewhere = [&](const Operand& operand) { return operand.rank != rank_; };
  StepKind kind = StepKind::kCopy;
  if (elsewhere(from)) {
    kind = StepKind::kGet;
  } else if (std::any_of(targets.begin(), targets.end(), elsewhere)) {
    kind = StepKind::kPut;
  }
  add(kind, std::span(&from, 1), targets, count);
}

void ProgramBuilder::reduce(std::span<const Operand> from, std::span<const Operand> to,
                            uint64_t count) {
  add(StepKind::kReduce, from, to, count);
}

void ProgramBuilder::reduce(std::initializer_list<Operand> from, Operand to, uint64_t count) {
  add(StepKind::kReduce, std::span(from.begin(), from.size()), std::span(&to, 1), count);
}

void ProgramBuilder::signal(int peer, uint32_t amount) {
  Step step;
  step.kind = StepKind::kSignal;
  step.peer = peer;
  step.counter = static_cast<uint32_t>(channel_);
  step.amount = amount;
  add(step);
}

void ProgramBuilder::wait(int peer, uint32_t amount) {
  Step step;
  step.kind = StepKind::kWait;
  step.peer = peer;
  step.counter = static_cast<uint32_t>(channel_);
  step.amount = amount;
  add(step);
}

void ProgramBuilder::barrier() {
  if (ranks() > 1) {
    Step step;
    step.kind = StepKind::kBarrier;
    add(step);
  }
}

void ProgramBuilder::add(StepKind kind, std::span<const Operand> from, std::span<const Operand> to,
                         uint64_t count) {
  if (count == 0) {
    return;
  }
  Step step;
  step.kind = kind;
  step.first_operand = static_cast<uint32_t>(program_.operands.size());
  step.inputs = static_cast<uint32_t>(from.size());
  step.outputs = static_cast<uint32_t>(to.size());
  step.count = count;
  program_.operands.insert(program_.operands.end(), from.begin(), from.end());
  program_.operands.insert(program_.operands.end(), to.begin(), to.end());
  add(step);
}

void ProgramBuilder::add(const Step& step) {
  program_.channels[static_cast<size_t>(channel_)].push_back(step);
}

}  // namespace onrt::cc
