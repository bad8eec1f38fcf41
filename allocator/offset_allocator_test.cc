// SPDX-License-Identifier: Apache-2.0
#include "allocator/offset_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace onrt {
namespace {

OffsetAllocator make(uint64_t size, uint64_t granule = 64) {
  auto made = OffsetAllocator::create(size, granule);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(made).value();
}

void expect_sound(const OffsetAllocator& allocator) {
  const Status status = allocator.check_invariants();
  ASSERT_TRUE(status.ok()) << status.message();
}

TEST(OffsetAllocator, RefusesGranuleThatIsNotAPowerOfTwo) {
  EXPECT_EQ(OffsetAllocator::create(1 << 20, 48).status().code(), NRT_INVALID);
  EXPECT_EQ(OffsetAllocator::create(1 << 20, 0).status().code(), NRT_INVALID);
  EXPECT_EQ(OffsetAllocator::create(10, 64).status().code(), NRT_INVALID);
  EXPECT_EQ(OffsetAllocator::create(1ULL << 40, 64).status().code(), NRT_INVALID);
}

TEST(OffsetAllocator, GivesTheWholeRangeToOneBlock) {
  for (const uint64_t size :
       {uint64_t{64}, uint64_t{4096}, uint64_t{1000003} * 64, uint64_t{64} << 20}) {
    OffsetAllocator allocator = make(size);
    const auto block = allocator.allocate(size, 64);
    ASSERT_TRUE(block) << size;
    EXPECT_EQ(block->offset, 0U);
    EXPECT_EQ(allocator.free_bytes(), 0U);
    EXPECT_FALSE(allocator.allocate(1, 1));
    EXPECT_TRUE(allocator.free(*block));
    expect_sound(allocator);
  }
}

TEST(OffsetAllocator, GivesTheWholeAlignedRangeAtItsOwnAlignment) {
  OffsetAllocator allocator = make(64 << 20);
  EXPECT_TRUE(allocator.allocate(64 << 20, 4096));
}

TEST(OffsetAllocator, RefusesSizeZeroAndOddAlignment) {
  OffsetAllocator allocator = make(1 << 20);
  EXPECT_FALSE(allocator.allocate(0, 64));
  EXPECT_FALSE(allocator.allocate(64, 0));
  EXPECT_FALSE(allocator.allocate(64, 96));
  EXPECT_FALSE(allocator.allocate((1 << 20) + 1, 64));
  EXPECT_FALSE(allocator.allocate(UINT64_MAX, 64));
  EXPECT_FALSE(allocator.allocate(64, 1ULL << 63));
}

TEST(OffsetAllocator, RoundsSizesUpToTheGranule) {
  OffsetAllocator allocator = make(1 << 20);
  EXPECT_EQ(allocator.allocate(1, 1)->size, 64U);
  EXPECT_EQ(allocator.allocate(65, 1)->size, 128U);
  EXPECT_EQ(allocator.used_bytes(), 192U);
}

TEST(OffsetAllocator, FreeingNeighboursMergesThem) {
  OffsetAllocator allocator = make(3 * 64);
  const auto a = allocator.allocate(64, 64);
  const auto b = allocator.allocate(64, 64);
  const auto c = allocator.allocate(64, 64);
  EXPECT_TRUE(allocator.free(*a));
  EXPECT_TRUE(allocator.free(*c));
  EXPECT_FALSE(allocator.allocate(128, 64));
  EXPECT_TRUE(allocator.free(*b));
  EXPECT_EQ(allocator.statistics().free_blocks, 1U);
  EXPECT_TRUE(allocator.allocate(192, 64));
}

TEST(OffsetAllocator, FreeingTwiceOrAForeignBlockChangesNothing) {
  OffsetAllocator allocator = make(1 << 20);
  const auto a = allocator.allocate(64, 64);
  auto wrong = *a;
  wrong.offset += 64;
  EXPECT_FALSE(allocator.free(wrong));
  wrong = *a;
  wrong.node = 77;
  EXPECT_FALSE(allocator.free(wrong));
  EXPECT_TRUE(allocator.free(*a));
  EXPECT_FALSE(allocator.free(*a));
  expect_sound(allocator);
}

TEST(OffsetAllocator, StatisticsFollowAllocations) {
  OffsetAllocator allocator = make(4096);
  const auto a = allocator.allocate(1024, 64);
  const auto b = allocator.allocate(512, 64);
  EXPECT_TRUE(allocator.free(*a));
  const auto statistics = allocator.statistics();
  EXPECT_EQ(statistics.size, 4096U);
  EXPECT_EQ(statistics.used, 512U);
  EXPECT_EQ(statistics.peak_used, 1536U);
  EXPECT_EQ(statistics.largest_free, 2560U);
  EXPECT_EQ(statistics.used_blocks, 1U);
  EXPECT_EQ(statistics.free_blocks, 2U);
  EXPECT_TRUE(allocator.free(*b));
}

// Blocks never overlap, keep their alignment, and the structure is sound after every step.
TEST(OffsetAllocator, StaysSoundInRandomUse) {
  for (const uint32_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    OffsetAllocator allocator = make(1 << 20);
    std::vector<OffsetAllocator::Block> live;
    std::map<uint64_t, uint64_t> ranges;
    for (int step = 0; step < 6000; ++step) {
      const bool grow = live.empty() || random() % 5 < (step / 1000 % 2 == 0 ? 3U : 2U);
      if (grow) {
        const uint64_t alignment = 1ULL << (random() % 14);
        const uint64_t size = 1 + (random() % (1ULL << (1 + random() % 16)));
        if (const auto block = allocator.allocate(size, alignment)) {
          ASSERT_EQ(block->offset % alignment, 0U);
          ASSERT_GE(block->size, size);
          ASSERT_LE(block->offset + block->size, allocator.size_bytes());
          const auto after = ranges.lower_bound(block->offset);
          ASSERT_TRUE(after == ranges.end() || block->offset + block->size <= after->first);
          if (after != ranges.begin()) {
            const auto before = std::prev(after);
            ASSERT_LE(before->first + before->second, block->offset);
          }
          ranges[block->offset] = block->size;
          live.push_back(*block);
        }
      } else {
        std::swap(live[random() % live.size()], live.back());
        ranges.erase(live.back().offset);
        ASSERT_TRUE(allocator.free(live.back()));
        live.pop_back();
      }
      expect_sound(allocator);
    }
    for (const auto& block : live) {
      ASSERT_TRUE(allocator.free(block));
    }
    EXPECT_TRUE(allocator.empty());
    EXPECT_EQ(allocator.statistics().largest_free, allocator.size_bytes());
    expect_sound(allocator);
  }
}

}  // namespace
}  // namespace onrt
