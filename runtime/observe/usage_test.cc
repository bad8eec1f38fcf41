// SPDX-License-Identifier: Apache-2.0
// Expected numbers are counted by hand.
#include "runtime/observe/usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace onrt::observe {
namespace {

using ::testing::DoubleNear;

constexpr uint64_t kSecond = 1'000'000'000;

// One device with 4 physical cores; a process with logical cores of two holds cores 2 and 3.
emu::MachineSnapshot machine(uint64_t at_ns) {
  emu::MachineSnapshot snapshot;
  snapshot.read_at_ns = at_ns;
  snapshot.info.device_count = 1;
  snapshot.info.physical_cores_per_device = 4;
  snapshot.info.logical_core_size = 2;
  snapshot.info.neuroncore_version = "v3";
  snapshot.cores.resize(4);
  emu::ProcessSnapshot process;
  process.slot = 5;
  process.generation = 9;
  process.logical_core_size = 2;
  process.physical_cores = {2, 3};
  snapshot.cores[2].owner = 0;
  snapshot.cores[3].owner = 0;
  snapshot.processes.push_back(process);
  return snapshot;
}

uint64_t& counter(emu::CoreSnapshot& core, CoreCounter which) {
  return core.counters[static_cast<size_t>(which)];
}

TEST(CoreUse, IsTheShareOfTheTimeBetweenTheSnapshots) {
  auto before = machine(10 * kSecond);
  auto now = machine(12 * kSecond);
  before.cores[2].owner_busy_ns = before.cores[3].owner_busy_ns = 3 * kSecond;
  now.cores[2].owner_busy_ns = 4 * kSecond;
  now.cores[3].owner_busy_ns = 5 * kSecond;
  counter(before.cores[2], CoreCounter::kMultiplyAccumulates) = 1000;
  counter(now.cores[2], CoreCounter::kMultiplyAccumulates) = 5000;
  const auto uses = core_use(&before, now, now.processes[0]);
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].core, 1);
  EXPECT_EQ(uses[0].device, 0);
  EXPECT_EQ(uses[0].index, 1);
  EXPECT_DOUBLE_EQ(uses[0].percent, 75);
  EXPECT_DOUBLE_EQ(uses[0].physical[0].percent, 50);
  EXPECT_EQ(uses[0].physical[1].core, 3);
  EXPECT_DOUBLE_EQ(uses[0].flops, 4000);  // 4000 multiply-accumulates are 8000, in 2 s
}

TEST(CoreUse, OfAnEarlierOwnerIsNotCounted) {
  auto before = machine(10 * kSecond);
  auto now = machine(11 * kSecond);
  before.processes[0].generation = 8;
  before.cores[2].owner_busy_ns = before.cores[3].owner_busy_ns = 90 * kSecond;
  now.cores[2].owner_busy_ns = now.cores[3].owner_busy_ns = kSecond / 4;
  EXPECT_DOUBLE_EQ(core_use(&before, now, now.processes[0])[0].percent, 25);
  EXPECT_DOUBLE_EQ(core_use(nullptr, now, now.processes[0])[0].percent, 0);
}

TEST(ExecutionUse, CountsWhatEndedInBetween) {
  auto before = machine(0);
  auto now = machine(kSecond);
  counter(before.cores[2], CoreCounter::kCompleted) = 10;
  counter(now.cores[2], CoreCounter::kCompleted) = 13;
  counter(now.cores[2], CoreCounter::kTimedOut) = 1;
  counter(now.cores[2], CoreCounter::kErrorHardware) = 2;
  const auto use = execution_use(&before, now, now.processes[0]);
  EXPECT_EQ(use.outcomes, (std::array<uint64_t, 6>{3, 0, 0, 1, 0, 0}));
  EXPECT_EQ(use.errors, (std::array<uint64_t, 6>{0, 0, 0, 0, 0, 2}));
  EXPECT_FALSE(use.total_latency.has_value());
}

TEST(ExecutionUse, PercentilesAreOfTheExecutionsInBetween) {
  auto before = machine(0);
  auto now = machine(kSecond);
  const auto slow = latency_bucket(80'000'000);
  const auto fast = latency_bucket(1'000'000);
  before.cores[2].total_latency.buckets[slow] = 0xFFFFFFFF;  // about to wrap
  now.cores[2].total_latency.buckets[slow] = 1;              // two more
  now.cores[2].total_latency.buckets[fast] = 98;
  const auto use = execution_use(&before, now, now.processes[0]);
  ASSERT_TRUE(use.total_latency.has_value());
  EXPECT_FALSE(use.device_latency.has_value());
  for (size_t i = 0; i < 5; ++i) {  // p0 .. p75
    EXPECT_THAT((*use.total_latency)[i], DoubleNear(0.001, 0.00004)) << kPercentileNames[i];
  }
  EXPECT_THAT((*use.total_latency)[5], DoubleNear(0.080, 0.003));  // p99: the 99th of 100
  EXPECT_THAT((*use.total_latency)[6], DoubleNear(0.080, 0.003));
}

TEST(DeviceMemoryUse, EveryByteIsInOneCategory) {
  emu::CoreSnapshot core;
  uint64_t sum = 0;
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    core.bytes[i] = 1ULL << i;
    sum += core.bytes[i];
  }
  EXPECT_EQ(device_memory(core).total(), sum);
  EXPECT_EQ(device_memory(core).tensors, 1ULL << static_cast<int>(MemoryCategory::kTensors));
}

TEST(HostMemoryUse, WhatTheRuntimeDoesNotKnowIsTheApplications) {
  emu::ProcessSnapshot process;
  process.host_bytes[static_cast<size_t>(HostCategory::kTensors)] = 30;
  EXPECT_EQ(host_memory(process, 100).application, 70u);
  EXPECT_EQ(host_memory(process, 100).total(), 100u);
  EXPECT_EQ(host_memory(process, 10).total(), 30u);  // tensors that were never touched
}

TEST(ModelsOf, AreWhereTheirCoreIs) {
  auto snapshot = machine(0);
  emu::ModelSnapshot model;
  model.core = 1;
  model.model = 1001;
  snapshot.processes[0].models.push_back(model);
  model.core = 77;  // garbage
  snapshot.processes[0].models.push_back(model);
  snapshot.cores[2].running_model = 1001;
  const auto models = models_of(snapshot, snapshot.processes[0]);
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].index, 1);
  EXPECT_TRUE(models[0].running);
}

}  // namespace
}  // namespace onrt::observe
