// SPDX-License-Identifier: Apache-2.0
// Schedules as JSON. What is accepted reads back equal, can be drawn, and gives the reference's
// result in any interleaving: the verifier is fuzzed too.
#include <cstdlib>
#include <string_view>

#include "collectives/plan/draw.h"
#include "collectives/plan/schedule_json.h"
#include "collectives/plan/testing/reference.h"
#include "collectives/plan/verify.h"

namespace onrt::cc {
namespace {

constexpr uint64_t kMostElements = 1 << 14;

bool is_small(const Schedule& schedule) {
  uint64_t elements = 0;
  for (int rank = 0; rank < schedule.spec.ranks; ++rank) {
    const RankProgram& program = schedule.programs[static_cast<size_t>(rank)];
    for (const uint64_t part : {in_elements(schedule.spec, rank), out_elements(schedule.spec, rank),
                                program.scratch_elements, program.partial_elements}) {
      if (part > kMostElements || (elements += part) > kMostElements) {
        return false;
      }
    }
  }
  // Sums of the reference are of 32 bits.
  return schedule.spec.ranks <= 64 &&
         schedule.spec.partial_bytes >= std::min<uint32_t>(4, schedule.spec.element_bytes);
}

void check(std::string_view text) {
  const auto parsed = parse_schedule(text);
  if (!parsed.ok()) {
    if (parsed.status().message().empty()) {
      std::abort();
    }
    return;
  }
  static_cast<void>(draw_dot(*parsed));
  static_cast<void>(draw_svg(*parsed));
  if (!verify(*parsed).ok()) {
    return;
  }
  const auto again = import_schedule(export_schedule(*parsed));
  if (!again.ok() || !(*again == *parsed)) {
    std::abort();
  }
  for (uint64_t seed = 0; seed < 3 && is_small(*parsed); ++seed) {
    if (!testing::run_and_compare(*parsed, seed, seed).empty()) {
      std::abort();
    }
  }
}

}  // namespace
}  // namespace onrt::cc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  onrt::cc::check(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
