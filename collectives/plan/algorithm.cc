// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/algorithm.h"

#include <algorithm>

#include "runtime/base/format.h"

namespace onrt::cc {

#define ONRT_ROW(name, factory) Algorithm factory();
#include "algorithm_table.inc"
#undef ONRT_ROW

std::span<const Algorithm> algorithms() {
  static const std::vector<Algorithm> kRows = {
#define ONRT_ROW(name, factory) factory(),
#include "algorithm_table.inc"
#undef ONRT_ROW
  };
  return kRows;
}

const Algorithm* find_algorithm(std::string_view name) {
  const auto rows = algorithms();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const Algorithm& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

Status supports(const Algorithm& algorithm, const Spec& spec) {
  ONRT_RETURN_IF_ERROR(check_spec(spec));
  if (!algorithm.ops.has(spec.op)) {
    return {NRT_INVALID, format("algorithm {} has no {}", algorithm.name, op_name(spec.op))};
  }
  return algorithm.supports(spec).annotate(format("algorithm {}", algorithm.name));
}

Result<RankProgram> build_program(const Algorithm& algorithm, const Spec& spec, int rank) {
  ONRT_RETURN_IF_ERROR(supports(algorithm, spec));
  if (rank < 0 || rank >= spec.ranks) {
    return Status(NRT_INVALID, format("rank: expected 0 to {}, found {}", spec.ranks - 1, rank));
  }
  ProgramBuilder builder(spec, rank);
  algorithm.build(builder);
  return builder.take();
}

Result<Schedule> build_schedule(const Algorithm& algorithm, const Spec& spec) {
  ONRT_RETURN_IF_ERROR(supports(algorithm, spec));
  Schedule schedule;
  schedule.algorithm = algorithm.name;
  schedule.spec = spec;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    ProgramBuilder builder(spec, rank);
    algorithm.build(builder);
    schedule.programs.push_back(builder.take());
  }
  return schedule;
}

}  // namespace onrt::cc
