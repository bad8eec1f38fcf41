// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/roster.h"

#include <algorithm>

#include "collectives/boot/wire.h"
#include "runtime/base/format.h"
#include "runtime/base/log.h"

namespace onrt::cc {
namespace {

constexpr size_t kMostRuns = 12;
constexpr size_t kLongestText = 255;

Cause mismatch(int rank, std::string text) {
  Cause cause;
  cause.kind = CauseKind::kMismatch;
  cause.code = NRT_INVALID;
  cause.rank = rank;
  cause.reporter = 0;
  cause.text = std::move(text);
  return cause;
}

}  // namespace

std::string rank_list(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t runs = 0;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) {
      ++end;
    }
    if (++runs > kMostRuns) {
      return text + format(" and {} more", ranks.size() - i);
    }
    text += i == 0 ? "" : ", ";
    text += end - i == 1 ? format("{}", ranks[i]) : format("{}-{}", ranks[i], ranks[end - 1]);
    i = end;
  }
  return text;
}

Roster::Roster(uint64_t job, const JoinMessage& root) : job_(job), size_(root.size) {
  members_.push_back(root);
  place_of_[0] = 0;
  leader_of_host_[root.host_id] = 0;
}

std::optional<Cause> Roster::problem_of(const JoinMessage& join, const std::string& peer) const {
  const std::string who =
      format("a process on {} (pid {}, {})", one_line(join.host_name), join.pid, peer);
  const int rank = join.rank < size_ ? static_cast<int>(join.rank) : -1;
  if (join.size != size_) {
    return mismatch(rank, format("rank {} ({}) expects {} ranks, rank 0 expects {}", join.rank, who,
                                 join.size, size_));
  }
  if (join.rank >= size_) {
    return mismatch(
        -1, format("{} calls itself rank {}: expected a rank below {}", who, join.rank, size_));
  }
  if (has_joined(join.rank)) {
    const JoinMessage& first = member(join.rank);
    return mismatch(rank, format("rank {} came twice: pid {} on {}, then {}", join.rank, first.pid,
                                 one_line(first.host_name), who));
  }
  const std::string difference =
      fingerprint_difference(0, members_[0].fingerprint, rank, join.fingerprint);
  if (!difference.empty()) {
    return mismatch(rank, "the ranks' environments differ: " + difference);
  }
  return std::nullopt;
}

Roster::Verdict Roster::admit(const JoinMessage& join, const std::string& peer) {
  Verdict verdict;
  verdict.problem = problem_of(join, peer);
  if (verdict.problem) {
    return verdict;
  }
  const auto place = static_cast<uint32_t>(members_.size());
  const JoinMessage& parent = members_[parent_place(place)];
  WelcomeMessage& welcome = verdict.welcome;
  welcome.job = job_;
  welcome.place = place;
  welcome.parent_rank = parent.rank;
  welcome.parent_is_local = parent.host_id == join.host_id ? 1 : 0;
  welcome.parent_pid = parent.pid;
  if (parent_place(place) != 0) {
    welcome.parent_port = parent.port;
    welcome.parent_address = parent.address;
  }
  welcome.leader_rank = leader_of_host_.try_emplace(join.host_id, join.rank).first->second;
  place_of_[join.rank] = place;
  members_.push_back(join);
  return verdict;
}

bool Roster::is_below(uint32_t rank, uint32_t ancestor) const {
  const auto from = place_of_.find(rank);
  const auto to = place_of_.find(ancestor);
  if (from == place_of_.end() || to == place_of_.end()) {
    return false;
  }
  uint32_t place = from->second;
  while (place > to->second) {
    place = parent_place(place);
  }
  return place == to->second && from->second != to->second;
}

std::vector<uint32_t> Roster::foremost(const std::vector<uint32_t>& missing) const {
  std::vector<uint32_t> out;
  for (const uint32_t rank : missing) {
    const bool behind = std::any_of(missing.begin(), missing.end(),
                                    [&](uint32_t other) { return is_below(rank, other); });
    if (!behind) {
      out.push_back(rank);
    }
  }
  return out;
}

std::vector<uint32_t> Roster::not_joined() const {
  std::vector<uint32_t> out;
  for (uint32_t rank = 0; rank < size_; ++rank) {
    if (!has_joined(rank)) {
      out.push_back(rank);
    }
  }
  return out;
}

ByteVector Roster::describe() const {
  std::map<std::string, uint32_t> hosts;
  WireWriter out;
  for (const auto& [rank, place] : place_of_) {
    const JoinMessage& member = members_[place];
    const auto host = hosts.try_emplace(member.host_id, static_cast<uint32_t>(hosts.size()));
    out.number(host.first->second);
    out.number(member.pid);
    out.text(member.host_id);
    out.text(member.host_name);
  }
  return out.take();
}

std::optional<std::vector<MemberDescription>> parse_description(ByteSpan bytes, size_t size) {
  WireReader in(bytes);
  std::vector<MemberDescription> members;
  for (size_t i = 0; i < size && !in.bad(); ++i) {
    MemberDescription member;
    member.host = in.number<uint32_t>();
    member.pid = in.number<uint32_t>();
    member.host_id = in.text(kLongestText);
    member.host_name = in.text(kLongestText);
    members.push_back(std::move(member));
  }
  return in.complete() && members.size() == size ? std::optional(std::move(members)) : std::nullopt;
}

}  // namespace onrt::cc
