// SPDX-License-Identifier: Apache-2.0
// What opennrt-plan prints: data in, text or JSON out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/plan/algorithm.h"
#include "collectives/plan/verify.h"

namespace onrt::tools {

// One algorithm, and what it would take for a spec or why it can't.
struct AlgorithmRow {
  const cc::Algorithm* algorithm = nullptr;
  std::optional<double> seconds;  // by the model; with a spec only
  std::string refusal;
};
std::string list_text(const std::vector<AlgorithmRow>& rows);
std::string list_json(const std::vector<AlgorithmRow>& rows);

// `only_rank`: -1 for all; `why`: "" when it was not chosen.
std::string show_text(const cc::Schedule& schedule, const std::string& why, int only_rank);
std::string show_json(const cc::Schedule& schedule, const std::string& why);

std::string verification_text(const cc::Schedule& schedule, const cc::Verification& result);
std::string verification_json(const cc::Schedule& schedule, const cc::Verification& result);

}  // namespace onrt::tools
