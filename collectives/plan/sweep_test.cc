// SPDX-License-Identifier: Apache-2.0
// Every algorithm, operation, number of ranks: the verifier accepts it. The verifier is tested by
// verify_test.cc and mutant_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/plan/algorithm.h"
#include "collectives/plan/testing/specs.h"
#include "collectives/plan/verify.h"

namespace onrt::cc {
namespace {

constexpr bool kWhole =
#ifdef ONRT_WHOLE_SWEEP
    true;
#else
    false;
#endif

class Sweep : public ::testing::TestWithParam<std::string> {
 protected:
  // Number of specs that were built and verified.
  static int sweep(const Algorithm& algorithm, Op op, int ranks) {
    int verified = 0;
    const bool all = kWhole ? ranks <= 20 : ranks <= 5;
    for (const Spec& spec : all ? testing::specs_of(op, ranks) : testing::few_specs_of(op, ranks)) {
      auto schedule = build_schedule(algorithm, spec);
      if (!schedule.ok()) {
        EXPECT_FALSE(schedule.status().message().empty());
        continue;
      }
      const Verification result = verify(*schedule);
      if (!result.ok()) {
        ADD_FAILURE() << algorithm.name << " " << testing::spec_text(spec) << ": "
                      << finding_text(result.findings.front());
        return verified;
      }
      ++verified;
    }
    return verified;
  }
};

TEST_P(Sweep, VerifiesForEveryOperationAndNumberOfRanks) {
  const Algorithm& algorithm = *find_algorithm(GetParam());
  for (int op = 0; op < kOps; ++op) {
    int verified = 0;
    for (int ranks = 1; ranks <= 64 && algorithm.ops.has(static_cast<Op>(op)); ++ranks) {
      const bool sampled = ranks <= 9 || ranks == 16 || ranks == 23 || ranks == 64;
      if (kWhole || sampled) {
        verified += sweep(algorithm, static_cast<Op>(op), ranks);
      }
      if (HasFailure()) {
        break;
      }
    }
    EXPECT_EQ(verified > 0, algorithm.ops.has(static_cast<Op>(op)))
        << algorithm.name << " " << op_name(static_cast<Op>(op));
  }
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) {
    names.emplace_back(algorithm.name);
  }
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& tested) {
  std::string name = tested.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Sweep, ::testing::ValuesIn(names()), test_name);

}  // namespace
}  // namespace onrt::cc
