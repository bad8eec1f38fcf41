// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/group_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/plan/algorithm.h"

namespace onrt::cc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Schedule all_reduce(const Algorithm& algorithm, int ranks) {
  Spec spec;
  spec.ranks = ranks;
  spec.count = 50;
  return *build_schedule(algorithm, spec);
}

// Rows and columns of a grid: what tensor and data parallel training does.
TEST(GroupOrder, RowsThenColumnsOfAGridEndWhateverTheAlgorithm) {
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.ops.has(Op::kAllReduce)) {
      continue;
    }
    const Schedule rows = all_reduce(algorithm, 4);
    const Schedule columns = all_reduce(algorithm, 3);
    std::vector<GroupCall> calls;
    std::vector<std::vector<size_t>> issued(12);
    const auto add = [&](std::vector<int> members, const Schedule& schedule) {
      for (const int rank : members) {
        issued[static_cast<size_t>(rank)].push_back(calls.size());
      }
      calls.push_back({std::move(members), &schedule});
    };
    for (int row = 0; row < 3; ++row) {
      add({row * 4 + 3, row * 4, row * 4 + 2, row * 4 + 1}, rows);
    }
    for (int column = 0; column < 4; ++column) {
      add({column, column + 4, column + 8}, columns);
    }
    const Status status = check_group_order(calls, issued);
    EXPECT_TRUE(status.ok()) << algorithm.name << ": " << status.message();
  }
}

TEST(GroupOrder, GroupsThatShareTwoRanksInOppositeOrderAreNamed) {
  const Schedule schedule = all_reduce(*find_algorithm("ring"), 2);
  const std::vector<GroupCall> calls = {{{0, 1}, &schedule}, {{1, 0}, &schedule}};
  EXPECT_TRUE(check_group_order(calls, {{0, 1}, {0, 1}}).ok());
  EXPECT_THAT(std::string(check_group_order(calls, {{0, 1}, {1, 0}}).message()),
              AllOf(HasSubstr("ranks wait for each other for ever"),
                    HasSubstr("rank 0 in operation 0 (all_reduce) for rank 1"),
                    HasSubstr("rank 1 in operation 1 (all_reduce) for rank 0")));
}

TEST(GroupOrder, ACycleOfThreeGroupsIsNamed) {
  const Schedule schedule = all_reduce(*find_algorithm("direct"), 2);
  const std::vector<GroupCall> calls = {
      {{0, 1}, &schedule}, {{1, 2}, &schedule}, {{2, 0}, &schedule}};
  EXPECT_TRUE(check_group_order(calls, {{0, 2}, {0, 1}, {1, 2}}).ok());
  EXPECT_THAT(std::string(check_group_order(calls, {{0, 2}, {1, 0}, {2, 1}}).message()),
              HasSubstr("rank 2 in operation 2 (all_reduce) for all of its group"));
}

TEST(GroupOrder, AnOperationThatAMemberLeavesOutIsNamed) {
  const Schedule schedule = all_reduce(*find_algorithm("direct"), 2);
  const std::vector<GroupCall> calls = {{{0, 1}, &schedule}};
  EXPECT_THAT(std::string(check_group_order(calls, {{0}, {}}).message()),
              HasSubstr("operation 0: rank 1 is 1 times a member and issues it 0 times"));
  EXPECT_THAT(std::string(check_group_order(calls, {{0}, {0}, {0}}).message()),
              HasSubstr("rank 2 is 0 times a member"));
  EXPECT_FALSE(check_group_order(calls, {{0}, {0, 7}}).ok());
}

}  // namespace
}  // namespace onrt::cc
