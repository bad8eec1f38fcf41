// SPDX-License-Identifier: Apache-2.0
#include "tools/opennrt_flight/merge.h"

#include <algorithm>
#include <map>

#include "collectives/exec/call.h"
#include "runtime/base/format.h"
#include "tools/common/table.h"

namespace onrt::tools {
namespace {

using cc::FlightEntry;
using cc::FlightState;

constexpr size_t kMostCulprits = 8;

bool is(const FlightEntry& entry, FlightState state) {
  return entry.state == static_cast<uint32_t>(state);
}

bool unfinished(const FlightEntry& entry) {
  return is(entry, FlightState::kRunning) || is(entry, FlightState::kFailed);
}

std::string who(const RankRecord& record) {
  const char* process = record.process == ProcessState::kRuns    ? ", still there"
                        : record.process == ProcessState::kEnded ? ", ended"
                                                                 : "";
  return format("rank {} (pid {}{})", record.rank(), record.file.header.pid, process);
}

// One call of a group, as the ranks that entered it recorded it.
using Call = std::map<int, const FlightEntry*>;
struct CallKey {
  uint64_t group;
  uint64_t call;
  auto operator<=>(const CallKey&) const = default;
};

std::map<CallKey, Call> calls_of(const JobRecords& job) {
  std::map<CallKey, Call> calls;
  for (const RankRecord& record : job.ranks) {
    for (const FlightEntry& entry : record.file.entries) {
      if (entry.call.call != 0) {
        calls[{entry.group, entry.call.call}][record.rank()] = &entry;
      }
    }
  }
  return calls;
}

const RankRecord& record_of(const JobRecords& job, int rank) {
  return *std::find_if(job.ranks.begin(), job.ranks.end(),
                       [&](const RankRecord& record) { return record.rank() == rank; });
}

void add(Verdict& verdict, VerdictKind kind, int rank, const std::string& text) {
  verdict.kind = kind;
  verdict.culprits.push_back(rank);
  if (verdict.culprits.size() <= kMostCulprits) {
    verdict.text += (verdict.text.empty() ? "" : "\n") + text;
  }
}

// Ranks whose call differs from that of most.
bool find_difference(const JobRecords& job, const std::map<CallKey, Call>& calls,
                     Verdict& verdict) {
  for (const auto& [key, call] : calls) {
    std::map<uint64_t, int> votes;
    for (const auto& [rank, entry] : call) {
      ++votes[entry->call.digest];
    }
    if (votes.size() < 2) {
      continue;
    }
    const auto most =
        std::max_element(votes.begin(), votes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto other = std::find_if(call.begin(), call.end(), [&](const auto& item) {
      return item.second->call.digest == most->first;
    });
    for (const auto& [rank, entry] : call) {
      if (entry->call.digest != most->first) {
        add(verdict, VerdictKind::kDiffer, rank,
            format("{} was in {}, rank {} and {} more in {}", who(record_of(job, rank)),
                   describe(*entry), other->first, most->second - 1, describe(*other->second)));
      }
    }
    return true;
  }
  return false;
}

// The first call that somebody gave up or never finished.
const std::pair<const CallKey, Call>* first_unfinished(const JobRecords& job,
                                                       const std::map<CallKey, Call>& calls) {
  const std::pair<const CallKey, Call>* first = nullptr;
  int64_t began = 0;
  for (const auto& item : calls) {
    for (const auto& [rank, entry] : item.second) {
      // Hosts count from different beginnings.
      const auto epoch = static_cast<uint64_t>(record_of(job, rank).file.header.epoch_ns);
      const auto start = static_cast<int64_t>(entry->start_ns + epoch);
      if (unfinished(*entry) && (first == nullptr || start < began)) {
        began = start;
        first = &item;
      }
    }
  }
  return first;
}

std::vector<int> members_of(const std::map<CallKey, Call>& calls, uint64_t group) {
  std::vector<int> members;
  for (const auto& [key, call] : calls) {
    for (const auto& [rank, entry] : call) {
      if (key.group == group) {
        members.push_back(rank);
      }
    }
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

std::string last_of(const RankRecord& record) {
  const FlightEntry* latest = record.latest();
  return latest == nullptr ? "it has begun no operation"
                           : format("its last operation is {} ({})", describe(*latest),
                                    state_name(latest->state));
}

// Members of the group that never entered the call.
void find_behind(const JobRecords& job, const std::map<CallKey, Call>& calls,
                 const std::pair<const CallKey, Call>& stuck, Verdict& verdict) {
  std::vector<int> members = members_of(calls, stuck.first.group);
  // The others waited for ranks that have no record in this group yet.
  for (const auto& [rank, entry] : stuck.second) {
    if (entry->peer >= 0 && entry->peer < job.size) {
      members.push_back(entry->peer);
    }
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  for (const int rank : members) {
    const bool has_record = std::any_of(job.ranks.begin(), job.ranks.end(),
                                        [&](const RankRecord& r) { return r.rank() == rank; });
    if (stuck.second.contains(rank)) {
      continue;
    }
    const std::string call = describe(*stuck.second.begin()->second);
    if (has_record) {
      add(verdict, VerdictKind::kBehind, rank,
          format("{} never entered {}: {}", who(record_of(job, rank)), call,
                 last_of(record_of(job, rank))));
    } else {
      add(verdict, VerdictKind::kBehind, rank,
          format("rank {} never entered {}: it left the job in order, or its record is elsewhere",
                 rank, call));
    }
  }
}

// Whether a later call of the group failed on some rank.
bool failed_later(const std::map<CallKey, Call>& calls, const CallKey& stuck) {
  return std::any_of(calls.begin(), calls.end(), [&](const auto& item) {
    return item.first.group == stuck.group && item.first.call > stuck.call &&
           std::any_of(item.second.begin(), item.second.end(),
                       [](const auto& entry) { return is(*entry.second, FlightState::kFailed); });
  });
}

// Ranks that were still in the call when others gave it up, or had left it and gave up a later one:
// killed or stopped there.
void find_stuck(const std::map<CallKey, Call>& calls, const JobRecords& job,
                const std::pair<const CallKey, Call>& stuck, Verdict& verdict) {
  const auto any = [&](FlightState state) {
    return std::any_of(stuck.second.begin(), stuck.second.end(),
                       [&](const auto& item) { return is(*item.second, state); });
  };
  const bool given_up = any(FlightState::kFailed);
  if (!given_up && !(any(FlightState::kDone) && failed_later(calls, stuck.first))) {
    return;
  }
  for (const auto& [rank, entry] : stuck.second) {
    if (is(*entry, FlightState::kRunning)) {
      add(verdict, VerdictKind::kStuck, rank,
          format("{} was still in {} when the others {}", who(record_of(job, rank)),
                 describe(*entry), given_up ? "gave it up" : "had left it"));
    }
  }
}

// All entered and all failed, or all still wait: whom most of them waited for.
void find_waited_for(const JobRecords& job, const std::pair<const CallKey, Call>& stuck,
                     Verdict& verdict) {
  std::map<int, int> votes;
  for (const auto& [rank, entry] : stuck.second) {
    if (entry->peer >= 0 && entry->peer != rank && stuck.second.contains(entry->peer)) {
      ++votes[entry->peer];
    }
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string call = describe(*stuck.second.begin()->second);
  verdict.kind = VerdictKind::kUnclear;
  verdict.text = format("{} failed; the records name no culprit", call);
  if (most != votes.end()) {
    verdict.culprits = {most->first};
    verdict.text = format("{} failed; {} of {} ranks waited for {}", call, most->second,
                          stuck.second.size(), who(record_of(job, most->first)));
  }
}

}  // namespace

std::string_view state_name(uint32_t state) {
  switch (static_cast<FlightState>(state)) {
    case FlightState::kRunning:
      return "running";
    case FlightState::kDone:
      return "done";
    case FlightState::kFailed:
      return "failed";
    case FlightState::kEmpty:
      break;
  }
  return "unknown";
}

std::string describe(const FlightEntry& entry) {
  const auto& call = entry.call;
  std::string text = format("{}, number {}", cc::describe(call), call.call);
  return entry.group == 0 ? text : text + format(" of group {:x}", entry.group);
}

Result<JobRecords> merge(std::vector<cc::FlightFile> files) {
  JobRecords job;
  if (files.empty()) {
    return Status(NRT_INVALID, "no flight records");
  }
  job.job = files[0].header.job;
  job.size = files[0].header.size;
  std::sort(files.begin(), files.end(), [](const cc::FlightFile& a, const cc::FlightFile& b) {
    return a.header.rank < b.header.rank;
  });
  for (cc::FlightFile& file : files) {
    const auto& header = file.header;
    if (header.job != job.job || header.size != job.size) {
      return Status(NRT_INVALID,
                    format("'{}': expected a record of job {:016x} with {} ranks, found "
                           "job {:016x} with {}",
                           printable(file.path), job.job, job.size, header.job, header.size));
    }
    if (header.rank < 0 || header.rank >= job.size ||
        (!job.ranks.empty() && job.ranks.back().rank() == header.rank)) {
      return Status(NRT_INVALID, format("'{}': rank {} of {} is out of range or there twice",
                                        printable(file.path), header.rank, job.size));
    }
    RankRecord record;
    record.file = std::move(file);
    job.ranks.push_back(std::move(record));
  }
  size_t next = 0;
  for (int rank = 0; rank < job.size; ++rank) {
    if (next < job.ranks.size() && job.ranks[next].rank() == rank) {
      ++next;
    } else {
      job.without_record.push_back(rank);
    }
  }
  return job;
}

Verdict judge(const JobRecords& job) {
  Verdict verdict;
  const std::map<CallKey, Call> calls = calls_of(job);
  if (find_difference(job, calls, verdict)) {
    return verdict;
  }
  const auto* stuck = first_unfinished(job, calls);
  if (stuck == nullptr) {
    verdict.text = "every operation that began has ended well";
    return verdict;
  }
  find_stuck(calls, job, *stuck, verdict);
  if (verdict.culprits.empty()) {
    find_behind(job, calls, *stuck, verdict);
  }
  if (verdict.culprits.empty()) {
    find_waited_for(job, *stuck, verdict);
  }
  if (verdict.culprits.size() > kMostCulprits) {
    verdict.text += format("\nand {} ranks more", verdict.culprits.size() - kMostCulprits);
  }
  return verdict;
}

}  // namespace onrt::tools
