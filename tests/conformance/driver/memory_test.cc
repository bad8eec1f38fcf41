// SPDX-License-Identifier: Apache-2.0
// HBM extents and DMA.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/conformance/driver/fixture.h"

namespace onrt::conformance {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;
constexpr auto kForever = std::chrono::steady_clock::time_point::max();

class DriverMemory : public DriverTest {
 protected:
  // Copies by DMA in descriptors of at most 64 KiB.
  static Status copy(Machine& machine, const DmaQueueId& queue, DeviceAddress source,
                     DeviceAddress destination, uint64_t size) {
    std::vector<DmaDescriptor> descriptors;
    for (uint64_t at = 0; at < size; at += kMaxDescriptorBytes) {
      const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(kMaxDescriptorBytes, size - at));
      descriptors.push_back({source + at, destination + at, bytes, 0});
    }
    ONRT_RETURN_IF_ERROR(machine.dma_submit(queue, descriptors));
    return machine.dma_wait(queue, kForever);
  }
};

TEST_P(DriverMemory, ExtentsDoNotOverlapAndAreAccounted) {
  if (!can(Capability::kMemory)) {
    return;
  }
  const auto machine = open();
  const HbmId hbm{1, 1};
  const HbmUsage before = machine->hbm_usage(hbm).value();
  EXPECT_EQ(before.used, 0u);
  EXPECT_EQ(before.largest, before.limit);
  const auto a = machine->allocate_extent(hbm, 64 * kMiB, 4096);
  const auto b = machine->allocate_extent(hbm, 100, 1 << 20);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(b->size, 4096u);
  EXPECT_EQ(b->address % (1 << 20), 0u);
  EXPECT_TRUE(a->address + a->size <= b->address || b->address + b->size <= a->address);
  EXPECT_GE(a->address, machine->info().hbm_base[1]);
  EXPECT_EQ(machine->hbm_usage(hbm)->used, 64 * kMiB + 4096);
  EXPECT_TRUE(machine->free_extent(*a).ok());
  EXPECT_FALSE(machine->free_extent(*a).ok());
  EXPECT_TRUE(machine->free_extent(*b).ok());
  EXPECT_EQ(machine->hbm_usage(hbm)->used, 0u);
}

TEST_P(DriverMemory, AFullStackSaysWhatIsLeft) {
  if (!can(Capability::kMemory)) {
    return;
  }
  const auto machine = open();
  const HbmId hbm{0, 0};
  std::vector<HbmExtent> extents;
  while (true) {
    auto extent = machine->allocate_extent(hbm, 64 * kMiB, 4096);
    if (!extent.ok()) {
      EXPECT_EQ(extent.status().code(), NRT_RESOURCE);
      EXPECT_THAT(std::string(extent.status().message()),
                  AllOf(HasSubstr("67108864 bytes"), HasSubstr("ND 0 HBM 0")));
      break;
    }
    extents.push_back(*extent);
  }
  // The stack is 1 GiB less the firmware's 16 MiB.
  EXPECT_EQ(extents.size(), 15u);
  // What is left can be had exactly.
  const uint64_t left = machine->hbm_usage(hbm)->largest;
  EXPECT_EQ(left, 48 * kMiB);
  EXPECT_TRUE(machine->allocate_extent(hbm, left, 4096).ok());
}

TEST_P(DriverMemory, BadRequestsAreInvalid) {
  if (!can(Capability::kMemory)) {
    return;
  }
  const auto machine = open();
  EXPECT_EQ(machine->allocate_extent({0, 0}, 0, 4096).status().code(), NRT_INVALID);
  EXPECT_EQ(machine->allocate_extent({0, 0}, 4096, 3).status().code(), NRT_INVALID);
  EXPECT_EQ(machine->allocate_extent({2, 0}, 4096, 4096).status().code(), NRT_INVALID);
  EXPECT_EQ(machine->allocate_extent({0, 2}, 4096, 4096).status().code(), NRT_INVALID);
  EXPECT_EQ(machine->allocate_extent({0, -1}, 4096, 4096).status().code(), NRT_INVALID);
  EXPECT_EQ(machine->allocate_extent({0, 0}, ~0ULL, 4096).status().code(), NRT_RESOURCE);
  const auto extent = machine->allocate_extent({0, 0}, kMiB, 4096);
  ASSERT_TRUE(extent.ok());
  EXPECT_FALSE(machine->map({0, 0}, extent->address, kMiB + 1).ok());
  EXPECT_FALSE(machine->map({0, 0}, extent->address + kMiB, 1).ok());
  EXPECT_FALSE(machine->map({0, 0}, extent->address + 1, ~0ULL).ok());
  EXPECT_FALSE(machine->map({0, 1}, extent->address, 1).ok());
  EXPECT_FALSE(machine->commit({0, 0}, extent->address - 1, 2).ok());
}

TEST_P(DriverMemory, DmaCopiesFromHostToHbmAndBack) {
  if (!can(Capability::kDma)) {
    return;
  }
  const auto machine = open();
  const uint64_t size = 3 * kMiB + 77;
  std::vector<uint8_t> out(size);
  std::vector<uint8_t> in(size);
  for (size_t i = 0; i < size; ++i) {
    out[i] = static_cast<uint8_t>(i * 31 + i / 4096);
  }
  const auto extent = machine->allocate_extent({1, 0}, 4 * kMiB, 4096);
  const auto queue = machine->create_dma_queue(1, 64);
  ASSERT_TRUE(extent.ok() && queue.ok());
  const auto source = machine->map_host(1, out.data(), size);
  const auto sink = machine->map_host(1, in.data(), size);
  ASSERT_TRUE(source.ok() && sink.ok());
  const DeviceCounters before = machine->counters(1).value();
  ASSERT_TRUE(copy(*machine, *queue, *source, extent->address + 5, size).ok());
  ASSERT_TRUE(copy(*machine, *queue, extent->address + 5, *sink, size).ok());
  EXPECT_EQ(in, out);
  const DeviceCounters after = machine->counters(1).value();
  // 3 MiB and 77 bytes are 49 descriptors of at most 64 KiB, each way.
  EXPECT_EQ(after.dma_descriptors - before.dma_descriptors, 98u);
  EXPECT_EQ(after.dma_bytes - before.dma_bytes, 2 * size);
  EXPECT_EQ(machine->counters(0)->dma_descriptors, 0u);
  EXPECT_TRUE(machine->unmap_host(1, *source).ok());
  EXPECT_FALSE(machine->unmap_host(1, *source).ok());
  EXPECT_EQ(copy(*machine, *queue, *source, extent->address, 16).code(), NRT_EXEC_HW_ERR_DMA_ABORT);
}

TEST_P(DriverMemory, DmaFillsAndMovesOverlappingRanges) {
  if (!can(Capability::kDma)) {
    return;
  }
  const auto machine = open();
  const auto extent = machine->allocate_extent({0, 0}, kMiB, 4096);
  const auto queue = machine->create_dma_queue(0, 8);
  ASSERT_TRUE(extent.ok() && queue.ok());
  std::byte* data = machine->map({0, 0}, extent->address, kMiB).value();
  const std::vector<DmaDescriptor> fills = {
      {0x0807060504030201ULL, extent->address, 20, kDmaFlagFill},
      {0xffffffffffffffffULL, extent->address + 20, 4, kDmaFlagFill}};
  ASSERT_TRUE(machine->dma_submit(*queue, fills).ok());
  ASSERT_TRUE(machine->dma_wait(*queue, kForever).ok());
  const uint8_t expected[24] = {1, 2, 3, 4, 5, 6, 7, 8, 1,   2,   3,   4,
                                5, 6, 7, 8, 1, 2, 3, 4, 255, 255, 255, 255};
  EXPECT_EQ(std::memcmp(data, expected, sizeof(expected)), 0);
  const std::vector<DmaDescriptor> move = {{extent->address, extent->address + 4, 20, 0}};
  ASSERT_TRUE(machine->dma_submit(*queue, move).ok());
  ASSERT_TRUE(machine->dma_wait(*queue, kForever).ok());
  EXPECT_EQ(std::memcmp(data + 4, expected, 20), 0);
}

TEST_P(DriverMemory, BadDescriptorAbortsAndTheQueueGoesOn) {
  if (!can(Capability::kDma)) {
    return;
  }
  const auto machine = open();
  const auto extent = machine->allocate_extent({0, 0}, kMiB, 4096);
  const auto queue = machine->create_dma_queue(0, 4);
  ASSERT_TRUE(extent.ok() && queue.ok());
  std::vector<uint8_t> host(4096, 9);
  const auto address = machine->map_host(0, host.data(), host.size());
  ASSERT_TRUE(address.ok());
  const std::vector<DmaDescriptor> bad = {{*address, extent->address, 0, 0},
                                          {*address, extent->address, kMaxDescriptorBytes + 1, 0},
                                          {*address, extent->address, 16, 0x80},
                                          {*address + 4090, extent->address, 16, 0},
                                          {*address, extent->address + kMiB - 8, 16, 0},
                                          {*address, ~0ULL - 4, 16, 0},
                                          {~0ULL - 4, extent->address, 16, 0},
                                          {0, extent->address, 16, 0}};
  for (const DmaDescriptor& descriptor : bad) {
    ASSERT_TRUE(machine->dma_submit(*queue, {&descriptor, 1}).ok());
    const Status status = machine->dma_wait(*queue, kForever);
    EXPECT_EQ(status.code(), NRT_EXEC_HW_ERR_DMA_ABORT);
    EXPECT_THAT(std::string(status.message()), HasSubstr("DMA descriptor 0"));
  }
  EXPECT_TRUE(copy(*machine, *queue, *address, extent->address, 4096).ok());
  EXPECT_EQ(copy(*machine, *queue, *address, extent->address, 5 * kMaxDescriptorBytes).code(),
            NRT_QUEUE_FULL);
  EXPECT_TRUE(machine->destroy_dma_queue(*queue).ok());
  EXPECT_EQ(copy(*machine, *queue, *address, extent->address, 1).code(), NRT_INVALID);
  EXPECT_EQ(machine->create_dma_queue(0, 3).status().code(), NRT_INVALID);
  EXPECT_EQ(machine->create_dma_queue(0, 0).status().code(), NRT_INVALID);
}

TEST_P(DriverMemory, ANewOwnerReadsZeros) {
  if (!can(Capability::kProcesses)) {
    return;
  }
  // One child writes the whole extent and exits without freeing it, the next maps the same range.
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(in_child([&] {
                auto opened = driver_->open(context_, {});
                if (!opened.ok()) {
                  return 1;
                }
                Machine& machine = **opened;
                const auto extent = machine.allocate_extent({0, 0}, 4 * kMiB, 4096);
                const auto data = machine.map({0, 0}, extent->address, extent->size);
                if (!data.ok()) {
                  return 2;
                }
                for (uint64_t i = 0; i < extent->size; i += 512) {
                  if (data.value()[i] != std::byte{0}) {
                    return 3;
                  }
                }
                std::memset(data.value(), 0x77, extent->size);
                ::_exit(turn == 0 ? 0 : 9);  // No destructor runs.
                return 0;
              }),
              turn == 0 ? 0 : 9);
  }
}

TEST_P(DriverMemory, FreedMemoryReadsAsZeroForTheNextExtent) {
  if (!can(Capability::kMemory)) {
    return;
  }
  const auto machine = open();
  const auto first = machine->allocate_extent({0, 0}, kMiB, 4096);
  std::memset(machine->map({0, 0}, first->address, kMiB).value(), 0x55, kMiB);
  ASSERT_TRUE(machine->free_extent(*first).ok());
  const auto second = machine->allocate_extent({0, 0}, kMiB, 4096);
  ASSERT_EQ(second->address, first->address);
  const std::byte* data = machine->map({0, 0}, second->address, kMiB).value();
  EXPECT_TRUE(std::all_of(data, data + kMiB, [](std::byte b) { return b == std::byte{0}; }));
}

TEST_P(DriverMemory, SharedDescriptorShowsTheSameMemory) {
  if (!can(Capability::kMemory)) {
    return;
  }
  const auto machine = open();
  const auto extent = machine->allocate_extent({0, 1}, kMiB, 4096);
  std::byte* data = machine->map({0, 1}, extent->address, kMiB).value();
  data[8192] = std::byte{42};
  uint64_t offset = 0;
  const auto fd = machine->share({0, 1}, extent->address + 8192, 4096, &offset);
  ASSERT_TRUE(fd.ok());
  void* peer = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, *fd, static_cast<off_t>(offset));
  ASSERT_NE(peer, MAP_FAILED);
  EXPECT_EQ(*static_cast<std::byte*>(peer), std::byte{42});
  ::munmap(peer, 4096);
  ::close(*fd);
}

TEST_P(DriverMemory, BackingHasALimitAndSaysSo) {
  if (!can(Capability::kMemory)) {
    return;
  }
  context_ = make_context({"OPENNRT_EMU_HBM_BACKING=8MiB"});
  const auto machine = open();
  const auto extent = machine->allocate_extent({0, 0}, 64 * kMiB, 4096);
  ASSERT_TRUE(extent.ok());
  EXPECT_TRUE(machine->commit({0, 0}, extent->address, 8 * kMiB).ok());
  const Status status = machine->commit({0, 0}, extent->address + 8 * kMiB, 1);
  EXPECT_EQ(status.code(), NRT_RESOURCE);
  EXPECT_THAT(std::string(status.message()), HasSubstr("8388608 of 8388608 bytes"));
  ASSERT_TRUE(machine->free_extent(*extent).ok());
  const auto again = machine->allocate_extent({0, 0}, 64 * kMiB, 4096);
  EXPECT_TRUE(machine->commit({0, 0}, again->address, 8 * kMiB).ok());
}

TEST_P(DriverMemory, PoisonShowsReadsOfUnwrittenMemory) {
  if (!can(Capability::kMemory)) {
    return;
  }
  context_ = make_context({"OPENNRT_EMU_POISON=1"});
  const auto machine = open();
  const auto extent = machine->allocate_extent({0, 0}, kMiB, 4096);
  EXPECT_EQ(machine->map({0, 0}, extent->address, 1).value()[0], std::byte{0xA5});
}

TEST_P(DriverMemory, AccountedBytesNeedAClaimedCore) {
  if (!can(Capability::kMemory)) {
    return;
  }
  const auto machine = open();
  EXPECT_EQ(machine->account(0, MemoryCategory::kTensors, 100).code(), NRT_INVALID);
  ASSERT_TRUE(machine->claim_cores({0, 1}).ok());
  EXPECT_TRUE(machine->account(0, MemoryCategory::kTensors, 100).ok());
  EXPECT_TRUE(machine->account(0, MemoryCategory::kTensors, -100).ok());
  EXPECT_EQ(machine->account(0, static_cast<MemoryCategory>(99), 1).code(), NRT_INVALID);
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverMemory, ::testing::ValuesIn(backends()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace onrt::conformance
