// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/choose.h"

#include <algorithm>
#include <vector>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

struct Candidate {
  const Algorithm* algorithm;
  double seconds;
};

std::string list_of(const std::vector<Candidate>& candidates) {
  std::string text;
  for (const Candidate& candidate : candidates) {
    text += (text.empty() ? "" : ", ") + std::string(candidate.algorithm->name);
  }
  return text.empty() ? "none" : text;
}

std::string time_text(const Candidate& candidate) {
  return format("{:.1f} us", candidate.seconds * 1e6);
}

std::string why_cheapest(const std::vector<Candidate>& sorted) {
  std::string text =
      format("{}: {} by the model", sorted.front().algorithm->name, time_text(sorted.front()));
  for (size_t i = 1; i < sorted.size(); ++i) {
    text += format("{} {} {}", i == 1 ? ";" : ",", sorted[i].algorithm->name, time_text(sorted[i]));
  }
  return text;
}

}  // namespace

LinkModel shared_memory_model(double ranks_per_core) {
  LinkModel link;
  link.alpha *= std::max(1.0, ranks_per_core);
  return link;
}

double estimate_seconds(const Cost& cost, const LinkModel& link) {
  return cost.rounds * link.alpha + cost.moved_bytes * link.beta + cost.reduced_bytes * link.gamma;
}

Result<Choice> choose(const Spec& spec, const LinkModel& link, std::string_view forced) {
  ONRT_RETURN_IF_ERROR(check_spec(spec));
  std::vector<Candidate> candidates;
  std::string refusals;
  for (const Algorithm& row : algorithms()) {
    if (!row.ops.has(spec.op)) {
      continue;
    }
    if (const Status status = supports(row, spec); status.ok()) {
      candidates.push_back({&row, estimate_seconds(row.cost(spec), link)});
    } else {
      refusals += (refusals.empty() ? "" : "; ") + std::string(status.message());
    }
  }
  if (!forced.empty()) {
    const Algorithm* row = find_algorithm(forced);
    const Status status = row == nullptr
                              ? Status(NRT_INVALID, format("no algorithm is named '{}'", forced))
                              : supports(*row, spec);
    if (!status.ok()) {
      return Status(NRT_INVALID, format("{}; {} on {} ranks can be done by: {}", status.message(),
                                        op_name(spec.op), spec.ranks, list_of(candidates)));
    }
    return Choice{row, format("{}: asked for", row->name)};
  }
  if (candidates.empty()) {
    return Status(NRT_INVALID, format("no algorithm does {} on {} ranks: {}", op_name(spec.op),
                                      spec.ranks, refusals));
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return Choice{candidates.front().algorithm, why_cheapest(candidates)};
}

}  // namespace onrt::cc
