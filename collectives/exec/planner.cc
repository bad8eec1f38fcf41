// SPDX-License-Identifier: Apache-2.0
#include "collectives/exec/planner.h"

#include <algorithm>

#include "collectives/transport/record.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr size_t kPlansKept = 64;

// Only this rank's memory, nothing that a peer may still be reading.
bool is_private(const RankProgram& program, const Step& step, int rank) {
  if (!moves_data(step.kind)) {
    return false;
  }
  for (uint32_t i = 0; i < step.inputs + step.outputs; ++i) {
    const Operand& operand = program.operands[step.first_operand + i];
    if (operand.rank != rank) {
      return false;
    }
    if (i >= step.inputs && operand.buffer == Buffer::kOut) {
      return false;  // out must be untouched until the calls were found to be equal
    }
  }
  return true;
}

int entry_barrier_of(const RankProgram& program, int rank) {
  if (program.channels.size() != 1) {
    return -1;
  }
  const std::vector<Step>& steps = program.channels.front();
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind == StepKind::kBarrier) {
      return static_cast<int>(i);
    }
    if (!is_private(program, steps[i], rank)) {
      return -1;
    }
  }
  return -1;
}

bool is_single_round(const Spec& spec, const RankProgram& program, int entry_barrier) {
  const bool scratch = program.scratch_elements != 0;
  if (entry_barrier < 0 || program.partial_elements != 0 ||
      (scratch && !program.alternate_scratch) ||
      program.scratch_elements * spec.element_bytes > kSmallBytes) {
    return false;
  }
  const std::vector<Step>& steps = program.channels.front();
  return std::all_of(steps.begin() + entry_barrier + 1, steps.end(),
                     [](const Step& step) { return moves_data(step.kind); });
}

void count_bytes(Plan& plan, int rank) {
  const auto ranks = static_cast<size_t>(plan.spec.ranks);
  plan.bytes_to.assign(ranks, 0);
  plan.bytes_from.assign(ranks, 0);
  const std::vector<uint64_t> moved = traffic(plan.spec, plan.program, rank);
  for (size_t peer = 0; peer < ranks; ++peer) {
    plan.bytes_to[peer] = moved[static_cast<size_t>(rank) * ranks + peer];
    plan.bytes_from[peer] = moved[peer * ranks + static_cast<size_t>(rank)];
  }
}

}  // namespace

Spec packed_window(const Spec& spec, uint64_t first, uint64_t count) {
  Spec window = spec;
  window.stride = 0;
  window.in_offsets.clear();
  window.out_offsets.clear();
  window.count = std::min(count, spec.count - std::min(first, spec.count));
  for (uint64_t& block : window.counts) {
    block = std::min(count, block - std::min(first, block));
  }
  return window;
}

Result<Choice> Planner::pick(const Spec& spec) const {
  const LinkModel link = shared_memory_model(options_.ranks_per_core);
  const Algorithm* const forced = find_algorithm(options_.algorithm);
  // A forced algorithm leaves what it can't do to the others; an unknown name is an error.
  if (forced != nullptr && !supports(*forced, spec).ok()) {
    ONRT_ASSIGN_OR_RETURN(Choice choice, choose(spec, link));
    choice.why = format("{} cannot; {}", options_.algorithm, choice.why);
    return choice;
  }
  return choose(spec, link, options_.algorithm);
}

bool Planner::fits(const Algorithm& algorithm, const Spec& spec, Shape* shape,
                   Status* failure) const {
  *shape = {};
  for (int rank = 0; rank < spec.ranks; ++rank) {
    auto program = build_program(algorithm, spec, rank);
    if (!program.ok()) {
      *failure = std::move(program).status();
      return true;
    }
    if (program->scratch_elements * spec.element_bytes > options_.scratch_bytes ||
        program->partial_elements * spec.partial_bytes > options_.scratch_bytes) {
      return false;
    }
    const int entry_barrier = entry_barrier_of(*program, rank);
    shape->merges = shape->merges && entry_barrier >= 0;
    shape->single_round = shape->single_round && is_single_round(spec, *program, entry_barrier);
  }
  return true;
}

Result<const Plan*> Planner::build(const Spec& spec, const Choice& choice) {
  auto plan = std::make_unique<Plan>();
  plan->number = ++made_;
  plan->spec = spec;
  ONRT_ASSIGN_OR_RETURN(plan->program, build_program(*choice.algorithm, spec, rank_));
  plan->algorithm = choice.algorithm->name;
  plan->why = choice.why;
  count_bytes(*plan, rank_);
  if (recent_.size() >= kPlansKept) {
    recent_.pop_back();
  }
  const Plan* made = plan.get();
  recent_.push_front({spec, std::move(plan)});
  return made;
}

Result<const Plan*> Planner::plan(const Spec& spec) {
  if (!recent_.empty() && recent_.front().asked == spec) {
    return recent_.front().plan.get();
  }
  const auto found = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const Entry& entry) { return entry.asked == spec; });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
    return recent_.front().plan.get();
  }
  ONRT_RETURN_IF_ERROR(check_spec(spec));
  ONRT_ASSIGN_OR_RETURN(const Choice choice, pick(spec));
  uint64_t longest = spec.count;
  for (const uint64_t count : spec.counts) {
    longest = std::max(longest, count);
  }
  Spec window = packed_window(spec, 0, longest);
  Status failure;
  if (spec.access == Access::kStaged) {
    const uint64_t most = std::max<uint64_t>(1, options_.window_bytes / spec.element_bytes);
    if (longest > most) {
      longest = most;
      window = packed_window(spec, 0, longest);
    }
  }
  Shape shape;
  while (!fits(*choice.algorithm, window, &shape, &failure)) {
    if (longest <= 1) {
      return Status(NRT_RESOURCE, format("{} of {} ranks: the scratch memory of {} bytes is too "
                                         "small for {}",
                                         op_name(spec.op), spec.ranks, options_.scratch_bytes,
                                         choice.algorithm->name));
    }
    longest = (longest + 1) / 2;
    window = packed_window(spec, 0, longest);
  }
  ONRT_RETURN_IF_ERROR(failure);
  ONRT_ASSIGN_OR_RETURN(const Plan* const made, build(window, choice));
  recent_.front().asked = spec;
  if (shape.merges) {
    recent_.front().plan->entry_barrier = entry_barrier_of(made->program, rank_);
    recent_.front().plan->single_round = shape.single_round;
  }
  return made;
}

Result<const Plan*> Planner::plan_window(const Spec& spec, const std::string& algorithm) {
  for (const Entry& entry : recent_) {
    if (entry.plan->spec == spec && entry.plan->algorithm == algorithm) {
      return entry.plan.get();
    }
  }
  return build(spec, {find_algorithm(algorithm), "window of a longer message"});
}

}  // namespace onrt::cc
