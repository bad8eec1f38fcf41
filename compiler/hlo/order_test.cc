// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace onrt::hlo {
namespace {

using ::testing::ElementsAre;

TEST(Order, PutsNeedsBeforeTheirUsersAndLeavesOutTheRest) {
  const std::vector<std::vector<int32_t>> needs = {{2, 1}, {2}, {}, {0}};
  const Order order = order_from(std::array{0}, needs);
  EXPECT_THAT(order.nodes, ElementsAre(2, 1, 0));
  EXPECT_EQ(order.cycle, -1);
}

TEST(Order, FindsACycle) {
  const std::vector<std::vector<int32_t>> needs = {{1}, {2}, {1}};
  EXPECT_EQ(order_from(std::array{0}, needs).cycle, 1);
}

TEST(Order, WalksALongChainWithoutRecursion) {
  std::vector<std::vector<int32_t>> needs(1000000);
  for (size_t i = 1; i < needs.size(); ++i) {
    needs[i - 1] = {static_cast<int32_t>(i)};
  }
  const Order order = order_from(std::array{0}, needs);
  EXPECT_EQ(order.nodes.size(), needs.size());
  EXPECT_EQ(order.nodes.back(), 0);
}

}  // namespace
}  // namespace onrt::hlo
