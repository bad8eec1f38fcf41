// SPDX-License-Identifier: Apache-2.0
// From a call to the program that this rank runs: which algorithm, in how many windows. Depends on
// agreed inputs only, so every rank comes to the same answer without asking.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "collectives/plan/algorithm.h"
#include "collectives/plan/choose.h"
#include "collectives/plan/schedule.h"

namespace onrt::cc {

struct Plan {
  uint64_t number = 0;  // no other plan of the planner ever has it
  Spec spec;
  RankProgram program;
  std::string algorithm;
  std::string why;
  // Every rank's program begins with steps within its own memory, then a barrier on its only
  // channel: that barrier can be the one that compares the calls. Index of that step, else -1.
  int entry_barrier = -1;
  // Nothing but moves follows that barrier, and scratch memory is at most kSmallBytes.
  bool single_round = false;
  std::vector<uint64_t> bytes_to;    // written by this rank into each rank's memory
  std::vector<uint64_t> bytes_from;  // read by this rank from each rank's memory
};

struct PlannerOptions {
  std::string algorithm;  // forced; "" chooses
  bool deterministic = false;
  double ranks_per_core = 1;
  uint64_t scratch_bytes = 0;  // room for each of kScratch and kPartial
  uint64_t window_bytes = 0;   // most bytes of a staged window
};

// Thread-compatible. Keeps the plans of recent specs.
class Planner {
 public:
  Planner(PlannerOptions options, int rank) : options_(std::move(options)), rank_(rank) {}

  // `spec.count` is that of the whole message; the plan's may be smaller: what fits a window. A
  // plan stays valid until the planner ends or 64 others were asked for.
  Result<const Plan*> plan(const Spec& spec);
  // The plan for a window of exactly `spec` (its count fits).
  Result<const Plan*> plan_window(const Spec& spec, const std::string& algorithm);

  const PlannerOptions& options() const { return options_; }

 private:
  Result<Choice> pick(const Spec& spec) const;
  Result<const Plan*> build(const Spec& spec, const Choice& choice);
  struct Shape {  // of all ranks' programs
    bool merges = true;
    bool single_round = true;
  };
  bool fits(const Algorithm& algorithm, const Spec& spec, Shape* shape, Status* failure) const;

  struct Entry {
    Spec asked;
    std::unique_ptr<Plan> plan;
  };
  PlannerOptions options_;
  int rank_;
  uint64_t made_ = 0;
  std::list<Entry> recent_;  // most recent first
};

// The largest window of `spec` whose counts are at most `count` per block, packed: stride 0, no
// offsets. For kAllGatherV and kAllToAllV: what of every block lies in [first, first + count).
Spec packed_window(const Spec& spec, uint64_t first, uint64_t count);

}  // namespace onrt::cc
