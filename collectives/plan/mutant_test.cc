// SPDX-License-Identifier: Apache-2.0
// The verifier against schedules with one seeded fault: each mutant is rejected, or it is
// equivalent. Equivalent is proved by running it: many seeded interleavings, cut into slices, each
// with other inputs, all give what plain loops give (testing/reference.cc). Only mutations that can
// leave a schedule correct (testing/mutate.h) may be accepted at all.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "collectives/plan/algorithm.h"
#include "collectives/plan/testing/mutate.h"
#include "collectives/plan/testing/reference.h"
#include "collectives/plan/testing/specs.h"
#include "collectives/plan/verify.h"

namespace onrt::cc {
namespace {

constexpr int kMutantsOfEach = 112;
constexpr uint64_t kInterleavings = 24;

struct Tally {
  int rejected = 0;
  int equivalent = 0;
};

std::string check_accepted(const Schedule& mutant, testing::Mutation mutation) {
  if (!testing::may_be_equivalent(mutation)) {
    return "accepted, but this kind of fault is never harmless";
  }
  for (uint64_t seed = 0; seed < kInterleavings; ++seed) {
    const std::string wrong = testing::run_and_compare(mutant, seed, seed % 4);
    if (!wrong.empty()) {
      return "accepted, but wrong: " + wrong;
    }
  }
  return "";
}

Tally test_mutants(const Algorithm& algorithm, const Spec& spec) {
  Tally tally;
  const auto original = build_schedule(algorithm, spec);
  if (!original.ok()) {
    return tally;
  }
  int tried = 0;
  for (uint64_t seed = 1; tally.rejected + tally.equivalent < kMutantsOfEach && tried < 4000;
       ++seed, ++tried) {
    const auto mutation = static_cast<testing::Mutation>(seed % testing::kMutations);
    Schedule mutant = *original;
    if (!testing::mutate(mutant, mutation, seed)) {
      continue;
    }
    if (!verify(mutant).ok()) {
      ++tally.rejected;
      continue;
    }
    const std::string wrong = check_accepted(mutant, mutation);
    EXPECT_EQ(wrong, "") << algorithm.name << " " << testing::spec_text(spec) << ": "
                         << testing::mutation_name(mutation) << ", seed " << seed;
    ++tally.equivalent;
  }
  EXPECT_GE(tally.rejected + tally.equivalent, 100)
      << algorithm.name << " " << testing::spec_text(spec);
  return tally;
}

TEST(Mutants, EachIsRejectedOrProvedEquivalent) {
  Tally total;
  for (const Algorithm& algorithm : algorithms()) {
    for (int op = 0; op < kOps; ++op) {
      if (!algorithm.ops.has(static_cast<Op>(op))) {
        continue;
      }
      for (const int ranks : {4, 5}) {
        for (const Spec& spec : testing::few_specs_of(static_cast<Op>(op), ranks)) {
          const Tally tally = test_mutants(algorithm, spec);
          total.rejected += tally.rejected;
          total.equivalent += tally.equivalent;
        }
      }
    }
  }
  RecordProperty("rejected", total.rejected);
  RecordProperty("equivalent", total.equivalent);
  std::printf("%d mutants rejected, %d proved equivalent\n", total.rejected, total.equivalent);
  EXPECT_GT(total.rejected, 3 * total.equivalent);
}

}  // namespace
}  // namespace onrt::cc
