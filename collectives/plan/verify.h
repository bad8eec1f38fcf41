// SPDX-License-Identifier: Apache-2.0
// Proves a schedule, or says where and why it is wrong.
//
// Signals and waits of a counter come from one channel each, so which signal a wait takes does not
// depend on the interleaving: one abstract run decides deadlock, and gives the happens-before order
// (vector clocks; Mattern 1989). Two accesses to one element that this order leaves open, of which
// one writes, are a race; without races every interleaving gives the same values, so the values of
// the one run are those of all. Values are symbolic: for each interval of elements, the ranks and
// offsets that were folded into it, in order. The check is exact, for the given count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/plan/schedule.h"

namespace onrt::cc {

enum class Mistake : uint8_t {
  kMalformed,  // fields that mean nothing: no such rank, buffer, counter; signals without waits
  kBounds,     // beyond the end of a buffer
  kAccess,     // memory that the spec's access, or the time, does not allow
  kAliasing,   // an output that overlaps an input partly
  kType,       // partial results mixed up with elements, or reduced again when complete
  kUnwritten,  // reads what nobody wrote
  kDeadlock,   // waits that nothing ends
  kRace,       // two unordered accesses
  kResult,     // an element of a result is not what the operation defines
  kOrder,      // not the order of ranks (deterministic), or other bits on another rank
  kRunAhead,   // alternate_scratch without the order that it needs
};
std::string_view mistake_name(Mistake mistake);

struct Finding {
  Mistake mistake = Mistake::kMalformed;
  int rank = -1;     // -1: the whole schedule
  int channel = -1;  // -1: the rank's result
  int step = -1;
  std::string text;  // one sentence: range, expected, found
};
// "rank 2, channel 0, step 5: ..."
std::string finding_text(const Finding& finding);

struct Verification {
  std::vector<Finding> findings;  // at most kMostFindings
  uint64_t steps = 0;
  uint64_t operands = 0;
  bool ok() const { return findings.empty(); }
};
inline constexpr size_t kMostFindings = 32;

Verification verify(const Schedule& schedule);
// NRT_INVALID with the first finding.
Status check_schedule(const Schedule& schedule);

}  // namespace onrt::cc
