// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/group_order.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

class GroupRun {
 public:
  GroupRun(std::span<const GroupCall> calls, const std::vector<std::vector<size_t>>& issued)
      : calls_(calls), issued_(issued), position_(issued.size()) {
    for (const GroupCall& call : calls) {
      next_.emplace_back();
      for (const RankProgram& program : call.schedule->programs) {
        next_.back().emplace_back(program.channels.size());
      }
    }
  }

  Status run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < issued_.size(); ++rank) {
        while (go_on(rank)) {
          moved = true;
        }
      }
    }
    return ended();
  }

 private:
  size_t place_of_rank(size_t call, size_t rank) const {
    const auto& members = calls_[call].members;
    return static_cast<size_t>(std::find(members.begin(), members.end(), static_cast<int>(rank)) -
                               members.begin());
  }

  const std::vector<Step>& steps(size_t call, size_t place, size_t channel) const {
    return calls_[call].schedule->programs[place].channels[channel];
  }

  // Takes what can be taken of the rank's current operation, or begins the next one.
  bool go_on(size_t rank) {
    if (position_[rank] == issued_[rank].size()) {
      return false;
    }
    const size_t call = issued_[rank][position_[rank]];
    const size_t place = place_of_rank(call, rank);
    auto& next = next_[call][place];
    bool moved = false;
    bool over = true;
    for (size_t channel = 0; channel < next.size(); ++channel) {
      while (next[channel] < steps(call, place, channel).size() && take(call, place, channel)) {
        moved = true;
      }
      over = over && next[channel] == steps(call, place, channel).size();
    }
    position_[rank] += over ? 1 : 0;
    return moved || over;
  }

  bool take(size_t call, size_t place, size_t channel) {
    const Step& step = steps(call, place, channel)[next_[call][place][channel]];
    const auto here = static_cast<int>(place);
    if (step.kind == StepKind::kBarrier) {
      return pass_barrier(call, channel, place);
    }
    if (step.kind == StepKind::kSignal) {
      counters_[{call, here, step.peer, step.counter}] += step.amount;
    } else if (step.kind == StepKind::kWait) {
      uint64_t& counter = counters_[{call, step.peer, here, step.counter}];
      if (counter < step.amount) {
        return false;
      }
      counter -= step.amount;
    }
    next_[call][place][channel] += 1;
    return true;
  }

  // Every rank counts itself once; the last one opens the barrier, the others find it open.
  bool pass_barrier(size_t call, size_t channel, size_t place) {
    auto& [arrivals, passed] = barriers_[{call, channel}];
    arrivals.resize(calls_[call].members.size());
    passed.resize(calls_[call].members.size());
    if (arrivals[place] == passed[place]) {
      arrivals[place] += 1;
    }
    if (*std::min_element(arrivals.begin(), arrivals.end()) < arrivals[place]) {
      return false;
    }
    passed[place] += 1;
    next_[call][place][channel] += 1;
    return true;
  }

  Status ended() const {
    std::string stuck;
    for (size_t rank = 0; rank < issued_.size(); ++rank) {
      if (position_[rank] < issued_[rank].size()) {
        stuck += (stuck.empty() ? "" : "; ") + waiting_text(rank);
      }
    }
    return stuck.empty() ? Status()
                         : Status(NRT_INVALID, "ranks wait for each other for ever: " + stuck);
  }

  std::string waiting_text(size_t rank) const {
    const size_t call = issued_[rank][position_[rank]];
    const size_t place = place_of_rank(call, rank);
    const auto& next = next_[call][place];
    for (size_t channel = 0; channel < next.size(); ++channel) {
      if (next[channel] < steps(call, place, channel).size()) {
        const Step& step = steps(call, place, channel)[next[channel]];
        const std::string whom =
            step.kind == StepKind::kBarrier
                ? std::string("all of its group")
                : format("rank {}", calls_[call].members[static_cast<size_t>(step.peer)]);
        return format("rank {} in operation {} ({}) for {}", rank, call,
                      op_name(calls_[call].schedule->spec.op), whom);
      }
    }
    return format("rank {}", rank);
  }

  std::span<const GroupCall> calls_;
  const std::vector<std::vector<size_t>>& issued_;
  std::vector<size_t> position_;
  std::vector<std::vector<std::vector<size_t>>> next_;  // [call][place][channel]
  std::map<std::tuple<size_t, int, int, uint32_t>, uint64_t> counters_;
  std::map<std::pair<size_t, size_t>, std::pair<std::vector<uint64_t>, std::vector<uint64_t>>>
      barriers_;
};

Status check_calls(std::span<const GroupCall> calls,
                   const std::vector<std::vector<size_t>>& issued) {
  for (size_t call = 0; call < calls.size(); ++call) {
    const auto& members = calls[call].members;
    if (members.size() != calls[call].schedule->programs.size()) {
      return {NRT_INVALID, format("operation {}: a schedule of {} ranks for a group of {}", call,
                                  calls[call].schedule->programs.size(), members.size())};
    }
    for (const int member : members) {
      if (member < 0 || static_cast<size_t>(member) >= issued.size()) {
        return {NRT_INVALID, format("operation {}: member {} is no rank of the job", call, member)};
      }
    }
    for (size_t rank = 0; rank < issued.size(); ++rank) {
      const auto times = std::count(issued[rank].begin(), issued[rank].end(), call);
      const auto wanted = std::count(members.begin(), members.end(), static_cast<int>(rank));
      if (times != wanted || wanted > 1) {
        return {NRT_INVALID, format("operation {}: rank {} is {} times a member and issues it {} "
                                    "times",
                                    call, rank, wanted, times)};
      }
    }
  }
  for (size_t rank = 0; rank < issued.size(); ++rank) {
    for (const size_t call : issued[rank]) {
      if (call >= calls.size()) {
        return {NRT_INVALID, format("rank {} issues operation {} of {}", rank, call, calls.size())};
      }
    }
  }
  return {};
}

}  // namespace

Status check_group_order(std::span<const GroupCall> calls,
                         const std::vector<std::vector<size_t>>& issued) {
  ONRT_RETURN_IF_ERROR(check_calls(calls, issued));
  return GroupRun(calls, issued).run();
}

}  // namespace onrt::cc
