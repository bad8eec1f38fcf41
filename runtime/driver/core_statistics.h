// SPDX-License-Identifier: Apache-2.0
// What a process counts about one of its logical cores, for tools in other processes. The backend
// gives the memory; on the emulator it is part of the machine directory.
//
// Execution counters and histograms have one writer at a time: whoever holds the core for an
// execution. It uses plain loads and stores, no locked instruction. Counters of other events
// (loads, allocations) have several writers and are added to atomically. Readers take each word by
// itself, so a reader in another process may see an execution half counted, never a torn word; a
// writer that is killed leaves nothing to repair. Numbers are those of the public data store
// (ndl/neuron_driver_shared.h, NDS_NC_COUNTER_* and NDS_EXT_NC_COUNTER_*).
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace onrt {

enum class CoreCounter : uint8_t {
  kTimeInUse = 0,  // us that the core was busy, by wall time
  kCompleted,
  kCompletedWithError,
  kCompletedWithNumericalError,
  kTimedOut,
  kIncorrectInput,
  kFailedToQueue,
  kErrorGeneric,
  kErrorNumerical,
  kErrorModel,
  kErrorTransient,
  kErrorHardware,
  kErrorRuntime,
  kLatencyDevice,  // us, sum over the executions that completed
  kLatencyTotal,
  kCoreTime,  // us that executions took on the device, of the latest one
  kGenericFailure,
  kErrorResource,
  kErrorResourceCore,
  kErrorInvalid,
  kUnsupportedNeffVersion,
  kCollectivesTime,
  kMemoryCode,
  kMemoryTensors,
  kMemoryConstants,
  kMemoryScratchpad,
  kMemoryMisc,
  kModelLoads,
  kInferences,
  kMultiplyAccumulates,
  kOutOfBounds,
  kHardwareCollectives,
  kHardwareHbm,
  kHardwareCore,
  kHardwareDmaAbort,
  kSoftwareQueueOverflow,
  kSoftwareSemaphore,
  kSoftwareEvent,
  kSoftwarePsumCollision,
  kSoftwareSequencer,
  kHardwareRepairableHbm,
};
inline constexpr size_t kCoreCounters = 64;  // room for more

// Latencies by size: 16 buckets for each power of two, so a bucket is at most 6.25 % wide. From
// 64 ns to 1100 s; outside, the first and last bucket.
inline constexpr size_t kLatencyBuckets = 496;

constexpr size_t latency_bucket(uint64_t ns) {
  const uint64_t units = ns >> 6;
  if (units < 16) {
    return static_cast<size_t>(units);
  }
  const auto octave = static_cast<size_t>(std::bit_width(units)) - 5;
  const size_t bucket = 16 + octave * 16 + static_cast<size_t>((units >> octave) & 15);
  return bucket < kLatencyBuckets ? bucket : kLatencyBuckets - 1;
}
// The middle of a bucket.
constexpr uint64_t latency_of_bucket(size_t bucket) {
  if (bucket < 16) {
    return (static_cast<uint64_t>(bucket) << 6) + 32;
  }
  const size_t octave = bucket / 16 - 1;
  return ((16 + static_cast<uint64_t>(bucket % 16)) << (octave + 6)) + (32ULL << octave);
}

// Counts wrap: readers use differences.
struct LatencyHistogram {
  std::array<uint32_t, kLatencyBuckets> buckets;
};

struct CoreStatistics {
  std::array<uint64_t, kCoreCounters> counters;
  uint64_t running_model;  // that executes now, 0: none
  uint64_t busy_ns;        // sum; kTimeInUse is this in us
  uint64_t unused[6];
  LatencyHistogram total_latency;   // as the runtime sees it
  LatencyHistogram device_latency;  // while the core was busy

  uint64_t& counter(CoreCounter which) { return counters[static_cast<size_t>(which)]; }
};
static_assert(std::is_trivially_copyable_v<CoreStatistics>);
static_assert(sizeof(CoreStatistics) == 512 + 64 + 2 * 4 * kLatencyBuckets);

// For the one writer of a word. Relaxed: readers are in other processes and take what there is.
template <class T>
inline void count_alone(T& word, std::type_identity_t<T> value) {
  const std::atomic_ref<T> shared(word);
  shared.store(static_cast<T>(shared.load(std::memory_order_relaxed) + value),
               std::memory_order_relaxed);
}
template <class T>
inline void set_alone(T& word, std::type_identity_t<T> value) {
  std::atomic_ref<T>(word).store(value, std::memory_order_relaxed);
}
// For words with several writers.
inline void count_shared(uint64_t& word, uint64_t value) {
  std::atomic_ref<uint64_t>(word).fetch_add(value, std::memory_order_relaxed);
}

}  // namespace onrt
