// SPDX-License-Identifier: Apache-2.0
#include "allocator/hbm_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "allocator/scratchpad.h"

namespace onrt {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr DeviceAddress kBase = 0x4000000000;

// One HBM stack that hands out extents and counts what is asked of it.
class StackOnly : public Machine {
 public:
  explicit StackOnly(uint64_t size) : space_(OffsetAllocator::create(size, 4096).value()) {
    info_.device_count = 1;
    info_.physical_cores_per_device = 2;
    info_.hbm_bytes = size;
  }
  const MachineInfo& info() const override { return info_; }
  Result<HbmUsage> hbm_usage(HbmId) override {
    return HbmUsage{space_.size_bytes(), space_.used_bytes(), space_.statistics().largest_free};
  }
  Result<HbmExtent> allocate_extent(HbmId hbm, uint64_t size, uint64_t alignment) override {
    const auto block = space_.allocate(size, alignment);
    if (!block) {
      return Status(NRT_RESOURCE, "the stack is full");
    }
    blocks[kBase + block->offset] = *block;
    return HbmExtent{hbm, kBase + block->offset, block->size};
  }
  Status free_extent(const HbmExtent& extent) override {
    const auto block = blocks.find(extent.address);
    EXPECT_TRUE(block != blocks.end() && space_.free(block->second));
    blocks.erase(extent.address);
    return ok_status();
  }
  Status commit(HbmId, DeviceAddress address, uint64_t size) override {
    commits.emplace_back(address - kBase, size);
    return ok_status();
  }
  Status account(int, MemoryCategory, int64_t bytes) override {
    accounted += bytes;
    return ok_status();
  }

  std::map<DeviceAddress, OffsetAllocator::Block> blocks;
  std::vector<std::pair<uint64_t, uint64_t>> commits;
  int64_t accounted = 0;

 private:
  MachineInfo info_;
  OffsetAllocator space_;
};

class HbmPoolTest : public testing::Test {
 protected:
  HbmPoolTest() {
    char name[] = "/tmp/hbm_pool_test.XXXXXX";
    folder_ = ::mkdtemp(name);
    pool_.emplace(machine_, context_, HbmId{0, 1}, folder_);
  }
  ~HbmPoolTest() override {
    pool_.reset();
    EXPECT_TRUE(machine_.blocks.empty()) << "extents were not given back";
    EXPECT_EQ(machine_.accounted, 0);
    std::filesystem::remove_all(folder_);
  }

  HbmBlock take(uint64_t size, MemoryCategory category = MemoryCategory::kTensors, int core = 0) {
    HbmRequest request;
    request.size = size;
    request.category = category;
    request.core = core;
    auto block = pool_->allocate(request);
    EXPECT_TRUE(block.ok()) << block.status().message();
    return *block;
  }

  static Context quiet() {
    Context context{Settings::from_strings({"NEURON_RT_LOG_LEVEL=QUIET"}), nullptr};
    context.log = std::make_unique<Logger>(context.settings);
    return context;
  }

  Context context_ = quiet();
  StackOnly machine_{512 * kMiB};
  std::string folder_;
  std::optional<HbmPool> pool_;
};

TEST_F(HbmPoolTest, SmallBlocksShareAnExtent) {
  const HbmBlock a = take(100);
  const HbmBlock b = take(5000);
  EXPECT_EQ(a.extent, b.extent);
  EXPECT_EQ(a.size, 128U);
  EXPECT_EQ(machine_.blocks.size(), 1U);
  EXPECT_EQ(pool_->usage().total(), 128U + 5056U);
  pool_->free(a);
  pool_->free(b);
  EXPECT_EQ(pool_->usage().total(), 0U);
}

TEST_F(HbmPoolTest, LargeBlocksGetAnExtentOfTheirSize) {
  const HbmBlock a = take(100 * kMiB + 1);
  EXPECT_EQ(a.size, 100 * kMiB + 4096);
  EXPECT_EQ(a.address % (2 * kMiB), 0U);
  EXPECT_EQ(pool_->extent_bytes(), a.size);
  pool_->free(a);
}

TEST_F(HbmPoolTest, KeepsAFewEmptyExtentsAndNoMore) {
  std::vector<HbmBlock> blocks;
  blocks.reserve(6);
  for (int i = 0; i < 6; ++i) {
    blocks.push_back(take(64 * kMiB));
  }
  for (const HbmBlock& block : blocks) {
    pool_->free(block);
  }
  EXPECT_EQ(pool_->extent_bytes(), HbmPool::kKeptBytes);
  EXPECT_TRUE(pool_->check_invariants().ok());
}

TEST_F(HbmPoolTest, AnEmptiedExtentIsUsedAgainWithItsBacking) {
  const HbmBlock a = take(1000);
  ASSERT_TRUE(a.commit(0, 1000).ok());
  pool_->free(a);
  const HbmBlock b = take(1000);
  ASSERT_TRUE(b.commit(0, 1000).ok());
  EXPECT_EQ(machine_.commits.size(), 1U);
  pool_->free(b);
}

TEST_F(HbmPoolTest, CommitsEachStepOnceAndOnlyWhatIsTouched) {
  const HbmBlock a = take(40 * kMiB);
  EXPECT_TRUE(machine_.commits.empty());
  ASSERT_TRUE(a.commit(3 * kMiB, 1).ok());
  ASSERT_TRUE(a.commit(2 * kMiB, 1).ok());
  ASSERT_TRUE(a.commit(0, 8 * kMiB).ok());
  ASSERT_TRUE(a.commit(0, 8 * kMiB).ok());
  const uint64_t start = a.address - kBase;
  EXPECT_THAT(machine_.commits, testing::ElementsAre(std::pair(start + 2 * kMiB, 2 * kMiB),
                                                     std::pair(start, 2 * kMiB),
                                                     std::pair(start + 4 * kMiB, 4 * kMiB)));
  pool_->free(a);
}

TEST_F(HbmPoolTest, FillsTheStackAndComesBack) {
  std::vector<HbmBlock> blocks;
  HbmRequest request;
  request.size = 64 * kMiB;
  Result<HbmBlock> block = pool_->allocate(request);
  while (block.ok()) {
    blocks.push_back(*block);
    block = pool_->allocate(request);
  }
  EXPECT_EQ(blocks.size(), 8U);
  EXPECT_EQ(block.status().code(), NRT_RESOURCE);
  EXPECT_THAT(std::string(block.status().message()),
              testing::HasSubstr("Failed to allocate 64.000MB (67108864 bytes) (usage: tensors) on "
                                 "ND 0:NC 0"));
  for (const HbmBlock& taken : blocks) {
    pool_->free(taken);
  }
  EXPECT_EQ(pool_->usage().total(), 0U);
  // Smaller than an extent: what was kept must be given back for it first.
  pool_->free(take(512 * kMiB));
}

TEST_F(HbmPoolTest, TakesASmallExtentWhenTheStackIsNearlyFull) {
  const HbmBlock big = take(480 * kMiB);
  const HbmBlock small = take(3 * kMiB);
  EXPECT_EQ(small.extent->extent().size, 3 * kMiB);
  pool_->free(small);
  pool_->free(big);
}

TEST_F(HbmPoolTest, RefusesMoreThanTheStackWithoutOverflow) {
  HbmRequest request;
  for (const uint64_t size : {513 * kMiB, UINT64_MAX, UINT64_MAX - 4095}) {
    request.size = size;
    EXPECT_EQ(pool_->allocate(request).status().code(), NRT_RESOURCE);
  }
  request.size = 0;
  EXPECT_EQ(pool_->allocate(request).status().code(), NRT_INVALID);
}

TEST_F(HbmPoolTest, OutOfMemoryWritesTheTableByCoreModelAndCategory) {
  pool_->name_model(1001, "digits \"train\"");
  HbmRequest code;
  code.size = 28 * 1024;
  code.category = MemoryCategory::kModelCode;
  code.model = 1001;
  const auto model = pool_->allocate(code);
  ASSERT_TRUE(model.ok());
  const HbmBlock tensor = take(448 * kMiB, MemoryCategory::kTensors, 1);
  HbmRequest request;
  request.size = 64 * kMiB;
  EXPECT_FALSE(pool_->allocate(request).ok());
  std::stringstream text;
  text << std::ifstream(folder_ + "/neuron_mem_table_device_0_hbm_1.log").rdbuf();
  EXPECT_THAT(text.str(), testing::HasSubstr("64.000MB (alignment: none, usage: tensors)"));
  EXPECT_THAT(text.str(), testing::ContainsRegex("ND 0 Overall +\\| 448.027MB \\| 28.000KB"));
  EXPECT_THAT(text.str(), testing::ContainsRegex("NC 1 +\\| 448.000MB \\|  0.000B"));
  EXPECT_THAT(text.str(), testing::ContainsRegex("NEFF 1001 +\\| 28.000KB  \\| 28.000KB"));
  EXPECT_THAT(text.str(), testing::HasSubstr("1001: \"digits"));
  EXPECT_THAT(text.str(), testing::HasSubstr("\t* total: 28.000KB\n"));
  EXPECT_THAT(text.str(), testing::HasSubstr("\t* dma rings: 0.000B\n"));
  pool_->free(*model);
  pool_->free(tensor);
  pool_->forget_model(1001);
  EXPECT_THAT(pool_->memory_table(), testing::Not(testing::HasSubstr("1001")));
}

TEST_F(HbmPoolTest, MemoryTableDoesNotFollowALink) {
  const std::string victim = folder_ + "/victim";
  std::ofstream(victim) << "keep";
  std::filesystem::create_symlink(victim, folder_ + "/neuron_mem_table_device_0_hbm_0.log");
  EXPECT_FALSE(write_memory_table(folder_, {0, 0}, "text"));
  EXPECT_EQ(std::filesystem::file_size(victim), 4U);
  std::filesystem::create_hard_link(victim, folder_ + "/neuron_mem_table_device_0_hbm_1.log");
  EXPECT_FALSE(write_memory_table(folder_, {0, 1}, "text"));
  EXPECT_TRUE(write_memory_table(folder_, {0, 2}, "text"));
  EXPECT_FALSE(write_memory_table(folder_ + "/none", {0, 2}, "text"));
}

TEST_F(HbmPoolTest, BooksStayExactInRandomUse) {
  std::mt19937 random(7);
  std::vector<HbmBlock> live;
  std::map<int, uint64_t> by_core;
  for (int step = 0; step < 4000; ++step) {
    if (live.empty() || random() % 2 == 0) {
      HbmRequest request;
      request.size = 1 + random() % (1ULL << (4 + random() % 23));
      request.alignment = 64ULL << (random() % 8);
      request.category = static_cast<MemoryCategory>(random() % kMemoryCategories);
      request.core = static_cast<int>(random() % 2);
      if (const auto block = pool_->allocate(request); block.ok()) {
        ASSERT_EQ(block->address % request.alignment, 0U);
        by_core[request.core] += block->size;
        live.push_back(*block);
      }
    } else {
      std::swap(live[random() % live.size()], live.back());
      by_core[live.back().core] -= live.back().size;
      pool_->free(live.back());
      live.pop_back();
    }
    const Status status = pool_->check_invariants();
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(pool_->usage_of_core(0).total(), by_core[0]);
    ASSERT_EQ(pool_->usage_of_core(1).total(), by_core[1]);
  }
  for (const HbmBlock& block : live) {
    pool_->free(block);
  }
  EXPECT_EQ(pool_->usage().total(), 0U);
}

TEST_F(HbmPoolTest, ScratchpadIsAsLargeAsTheLargestNeed) {
  Scratchpad scratch(*pool_, 0);
  ASSERT_TRUE(scratch.reserve(1, 10000).ok());
  EXPECT_EQ(scratch.size(), 12288U);
  EXPECT_EQ(pool_->usage().of(MemoryCategory::kSharedScratchpad), 12288U);
  ASSERT_TRUE(scratch.reserve(2, 100000).ok());
  EXPECT_EQ(scratch.size(), 102400U);
  ASSERT_TRUE(scratch.reserve(3, 0).ok());
  EXPECT_EQ(scratch.reserve(4, 600 * kMiB).code(), NRT_RESOURCE);
  EXPECT_EQ(scratch.size(), 102400U);
  scratch.release(2);
  EXPECT_EQ(scratch.size(), 12288U);
  scratch.release(1);
  EXPECT_EQ(scratch.size(), 0U);
  EXPECT_EQ(pool_->usage().total(), 0U);
}

TEST(MemoryLedger, ManyModelsAreListedByTheLargestOnes) {
  MemoryLedger ledger;
  for (uint32_t model = 1; model <= 100; ++model) {
    ledger.name_model(model, "op");
    ledger.add(0, model, MemoryCategory::kModelCode, model << 10);
  }
  const std::string table = ledger.table(0, 4);
  EXPECT_THAT(table, testing::HasSubstr("\\_NEFF 100"));
  EXPECT_THAT(table, testing::HasSubstr("\\_NEFF 86"));
  EXPECT_THAT(table, testing::Not(testing::HasSubstr("\\_NEFF 85")));
  // 1 + 2 + ... + 85 KiB.
  EXPECT_THAT(table, testing::ContainsRegex("85 others +\\| +3.569MB"));
  EXPECT_THAT(table, testing::HasSubstr("86: \"op\""));
  EXPECT_THAT(table, testing::Not(testing::HasSubstr("85: \"op\"")));
}

TEST(MemoryTable, SizesHaveThreeDigitsAfterThePoint) {
  // Values of the example in the SDK documentation.
  EXPECT_EQ(format_table_bytes(0), "0.000B");
  EXPECT_EQ(format_table_bytes(4ULL << 30), "4.000GB");
  EXPECT_EQ(format_table_bytes(183296), "179.000KB");
  EXPECT_EQ(format_table_bytes(1023), "1023.000B");
}

}  // namespace
}  // namespace onrt
