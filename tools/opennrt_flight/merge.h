// SPDX-License-Identifier: Apache-2.0
// Flight records of a job's ranks side by side, and who held up the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/exec/flight.h"

namespace onrt::tools {

enum class ProcessState { kRuns, kEnded, kUnknown };

struct RankRecord {
  cc::FlightFile file;
  ProcessState process = ProcessState::kUnknown;
  int rank() const { return file.header.rank; }
  // The latest operation; nothing before the first.
  const cc::FlightEntry* latest() const {
    return file.entries.empty() ? nullptr : &file.entries.back();
  }
};

// All records of one job, by rank.
struct JobRecords {
  uint64_t job = 0;
  int size = 0;
  std::vector<RankRecord> ranks;
  std::vector<int> without_record;  // left in order, or never had one
};

enum class VerdictKind {
  kNothing,  // every operation that began has ended well
  kDiffer,   // ranks made different calls
  kStuck,    // ranks were in an operation that others gave up
  kBehind,   // ranks never entered an operation that others were in
  kUnclear,  // operations failed, the records don't say because of whom
};

struct Verdict {
  VerdictKind kind = VerdictKind::kNothing;
  std::vector<int> culprits;
  std::string text;  // one line per culprit at most
};

// Sorts the files of one job; NRT_INVALID when they belong to different jobs or a rank comes twice.
Result<JobRecords> merge(std::vector<cc::FlightFile> files);
Verdict judge(const JobRecords& job);

// "all_reduce(sum, f32, 1024 elements), number 12", with the group unless it is that of all ranks.
std::string describe(const cc::FlightEntry& entry);
std::string_view state_name(uint32_t state);

}  // namespace onrt::tools
