// SPDX-License-Identifier: Apache-2.0
// Which ranks the root has seen and where in the tree they are. Places are given in the order of
// arrival, so a rank's parent always listens already. No I/O. Owned by the control thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/boot/cause.h"
#include "collectives/boot/messages.h"

namespace onrt::cc {

inline constexpr uint32_t kTreeFanOut = 16;
constexpr uint32_t parent_place(uint32_t place) { return (place - 1) / kTreeFanOut; }

class Roster {
 public:
  // `root` describes rank 0 itself.
  Roster(uint64_t job, const JoinMessage& root);

  // Gives `join` its place. A Cause (kMismatch) when it doesn't fit: wrong size, rank out of range,
  // rank there already, other fingerprint.
  struct Verdict {
    std::optional<Cause> problem;
    WelcomeMessage welcome;
  };
  Verdict admit(const JoinMessage& join, const std::string& peer);

  bool complete() const { return place_of_.size() == size_; }
  bool has_joined(uint32_t rank) const { return place_of_.contains(rank); }
  const JoinMessage& member(uint32_t rank) const { return members_[place_of_.at(rank)]; }
  // Ranks between which and the root `rank` stands: its descendants.
  bool is_below(uint32_t rank, uint32_t ancestor) const;
  // Of `missing` those whose parents aren't missing too: who holds up the others.
  std::vector<uint32_t> foremost(const std::vector<uint32_t>& missing) const;
  std::vector<uint32_t> not_joined() const;
  // For all ranks: host number, pid and host name, packed for kJoinDone.
  ByteVector describe() const;

 private:
  std::optional<Cause> problem_of(const JoinMessage& join, const std::string& peer) const;

  uint64_t job_;
  uint32_t size_;
  std::vector<JoinMessage> members_;       // by place
  std::map<uint32_t, uint32_t> place_of_;  // rank -> place
  std::map<std::string, uint32_t> leader_of_host_;
};

// "ranks 1, 3-5, 9" for messages; at most a dozen runs.
std::string rank_list(const std::vector<uint32_t>& ranks);

struct MemberDescription {
  uint32_t host = 0;
  uint32_t pid = 0;
  std::string host_id;
  std::string host_name;
};
std::optional<std::vector<MemberDescription>> parse_description(ByteSpan bytes, size_t size);

}  // namespace onrt::cc
