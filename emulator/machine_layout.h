// SPDX-License-Identifier: Apache-2.0
// Bytes of the control file of an emulated machine, mapped by every process that uses it.
//
// Fixed-width, offset-based, no pointers. Every field is untrusted: copy it, check it, then use the
// copy. Fields that are read while another process may write them are accessed by std::atomic_ref.
// Unused parts of the file are holes. A change of the layout changes kLayoutVersion, which is part
// of the directory's name, so that libraries of different age never share a file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/driver/driver.h"

namespace onrt::emu {

inline constexpr uint32_t kLayoutVersion = 2;
inline constexpr std::array<char, 8> kMagic = {'O', 'N', 'R', 'T', 'M', 'A', 'C', 'H'};

inline constexpr int kMaxDevices = 256;
inline constexpr int kMaxCoresPerDevice = 16;
inline constexpr int kMaxCores = 2048;
inline constexpr int kMaxStacksPerDevice = 8;
inline constexpr int kMaxStacks = 1024;
inline constexpr int kMaxExtentsPerStack = 2048;
inline constexpr int kMaxProcesses = 256;
inline constexpr int kMaxLinks = 8;
inline constexpr int kMaxModels = 512;        // listed per process; more are loaded but not listed
inline constexpr int kLayoutCategories = 16;  // >= kMemoryCategories
// Semaphores and events per core: 256 + 256 on v2 and v3 (public kernel driver).
inline constexpr int kSemaphores = 256;
inline constexpr int kEvents = 256;

struct DeviceRecord {
  char bdf[32];
  char cpu_affinity[128];
  int32_t numa_node;
  uint32_t link_count;
  int32_t links[kMaxLinks];
  uint64_t serial_number;
  uint8_t unused[48];
};
static_assert(sizeof(DeviceRecord) == 256);

struct ProfileRecord {
  char instance_type[64];
  char instance_id[32];
  char neuroncore_version[16];
  uint32_t architecture;
  uint32_t device_count;
  uint32_t physical_cores_per_device;
  uint32_t default_logical_core_size;
  uint32_t max_logical_core_size;
  uint32_t hbm_per_device;
  uint32_t dma_engines;
  uint32_t queues_per_engine;
  uint64_t hbm_bytes;
  uint64_t hbm_base[kMaxStacksPerDevice];
  uint8_t unused[40];
};
static_assert(sizeof(ProfileRecord) == 256);

// What the holder of the machine lock is doing. A process that gets the lock and finds an operation
// here knows that its predecessor died inside it, and repairs.
enum class JournalOperation : uint32_t {
  kIdle = 0,
  kAttach,
  kDetach,
  kClaim,
  kRelease,
  kAllocate,
  kFree,
  kCommit,
  kReclaim,
  kLastOperation = kReclaim,
};

struct JournalRecord {
  uint32_t operation;  // JournalOperation
  uint32_t slot;
  uint64_t repairs;  // how often a successor had to repair
  uint8_t unused[48];
};
static_assert(sizeof(JournalRecord) == 64);

struct ModelRecord {
  uint32_t sequence;  // odd while the owner changes the entry
  int32_t core;       // logical, in the owner's core size
  uint64_t id;        // of the program; 0: unused entry
  uint32_t model;     // number by which users know it
  uint32_t unused;
  uint8_t uuid[16];
  uint64_t code_bytes;  // accounted to the model on its core
  uint64_t constants_bytes;
  char name[136];
};
static_assert(sizeof(ModelRecord) == 192);

enum class SlotState : uint32_t { kFree = 0, kInUse = 1, kReclaiming = 2 };

struct ProcessRecord {
  uint32_t state;     // SlotState; written under the machine lock
  uint32_t sequence;  // odd while the owner changes the texts below
  int32_t pid;
  uint32_t logical_core_size;
  uint64_t start_time;     // field 22 of /proc/<pid>/stat
  uint64_t pid_namespace;  // inode of /proc/self/ns/pid
  uint64_t generation;     // of this slot: +1 per owner
  uint64_t committed_bytes;
  char command[512];
  char tag[256];
  char runtime_version[64];
  uint64_t host_bytes[4];      // by HostCategory
  uint32_t model_high_water;   // entries at and above it were never used by this owner
  uint32_t models_not_listed;  // loaded now, beyond kMaxModels
  uint8_t unused[104];
  ModelRecord models[kMaxModels];
};
static_assert(sizeof(ProcessRecord) == 1024 + 192 * kMaxModels);

struct CoreRecord {
  uint32_t owner;  // slot + 1; 0: free
  uint32_t unused0;
  uint64_t busy_since_ns;  // CLOCK_MONOTONIC, of the latest execution
  uint64_t busy;           // see busy_open()
  uint64_t device_clock_ns;
  uint64_t programs_completed;
  uint64_t programs_failed;
  uint64_t bytes[kLayoutCategories];
  uint64_t peak[kLayoutCategories];
  int64_t last_change[kLayoutCategories];  // of bytes
  uint64_t busy_before_owner;              // sum of `busy` when the present owner came
  uint8_t unused[72];
};
static_assert(sizeof(CoreRecord) == 512);

// How long a core was busy, as one word that is right at any moment: the sum in ns while it is
// idle; while a program runs, kBusyOpen and that time at which the sum would have been 0 had it
// been busy ever since. CLOCK_MONOTONIC.
inline constexpr uint64_t kBusyOpen = 1ULL << 63;
constexpr uint64_t busy_open(uint64_t sum_ns, uint64_t begin_ns) {
  return kBusyOpen | ((begin_ns - sum_ns) & ~kBusyOpen);
}
constexpr bool is_busy(uint64_t word) { return (word & kBusyOpen) != 0; }
constexpr uint64_t busy_sum(uint64_t word, uint64_t now_ns) {
  const uint64_t zero = word & ~kBusyOpen;
  return !is_busy(word) ? word : now_ns > zero ? now_ns - zero : 0;
}

// Statistics of a logical core are in the record of its first physical core.
struct CoreStatisticsRecord {
  CoreStatistics live;              // of the present owner
  uint64_t earlier[kCoreCounters];  // sums over earlier owners
  uint8_t unused[64];
};
static_assert(sizeof(CoreStatisticsRecord) == 5120);

struct SyncRecord {
  uint32_t semaphores[kSemaphores];
  uint32_t events[kEvents];
};
static_assert(sizeof(SyncRecord) == 2048);

// Programs are counted by core.
struct DeviceCounterRecord {
  uint64_t dma_descriptors;
  uint64_t dma_bytes;
  uint64_t unused0[2];
  uint64_t hbm_corrected_errors;
  uint64_t hbm_uncorrected_errors;
  uint8_t unused[16];
};
static_assert(sizeof(DeviceCounterRecord) == 64);

enum class ExtentState : uint32_t { kFree = 0, kOwned = 1, kScrubbing = 2 };

struct ExtentRecord {
  uint32_t state;   // ExtentState; written last
  uint32_t owner;   // slot
  uint64_t offset;  // in the stack
  uint64_t size;
  uint64_t committed_bytes;
};
static_assert(sizeof(ExtentRecord) == 32);

struct StackRecord {
  uint32_t extent_high_water;  // entries at and above it were never used
  uint8_t unused[60];
};
static_assert(sizeof(StackRecord) == 64);

struct ControlHeader {
  char magic[8];  // written last: a file without it is an unfinished creation
  uint32_t layout_version;
  uint32_t header_bytes;  // offset of `processes`
  uint64_t file_bytes;    // sizeof(ControlFile)
  uint64_t boot_nonce;    // of the boot in which it was made
  uint64_t committed_limit;
  uint64_t created_at;       // CLOCK_REALTIME, s
  uint32_t slot_high_water;  // slots at and above it were never used
  uint8_t unused0[12];
};
static_assert(sizeof(ControlHeader) == 64);

struct ControlFile {
  ControlHeader header;
  JournalRecord journal;
  uint8_t unused1[128];
  ProfileRecord profile;
  DeviceRecord devices[kMaxDevices];
  DeviceCounterRecord counters[kMaxDevices];
  StackRecord stacks[kMaxStacks];
  uint8_t unused2[3584];
  ProcessRecord processes[kMaxProcesses];
  CoreRecord cores[kMaxCores];
  SyncRecord sync[kMaxCores];
  ExtentRecord extents[kMaxStacks][kMaxExtentsPerStack];
  CoreStatisticsRecord statistics[kMaxCores];
};
static_assert(std::is_trivially_copyable_v<ControlFile>);
static_assert(offsetof(ControlFile, journal) == 64);
static_assert(offsetof(ControlFile, profile) == 256);
static_assert(offsetof(ControlFile, devices) == 512);
static_assert(offsetof(ControlFile, counters) == 66048);
static_assert(offsetof(ControlFile, stacks) == 82432);
static_assert(offsetof(ControlFile, processes) == 151552);
static_assert(offsetof(ControlFile, cores) == 151552 + kMaxProcesses * 99328);
static_assert(offsetof(ControlFile, sync) == offsetof(ControlFile, cores) + kMaxCores * 512);
static_assert(offsetof(ControlFile, extents) == offsetof(ControlFile, sync) + kMaxCores * 2048);
static_assert(offsetof(ControlFile, statistics) == offsetof(ControlFile, extents) + 67108864);

// Bytes of the lock file that stand for something (fcntl record locks).
inline constexpr int64_t kMachineLockByte = 0;
inline constexpr int64_t kSlotLockBytes = 4096;
inline constexpr int64_t kCoreLockBytes = 8192;

// The first 16 MiB of every stack belong to the firmware (public kernel driver, memory pools).
inline constexpr uint64_t kReservedHbmBytes = 16ULL << 20;
// Step in which HBM gets pages of the host.
inline constexpr uint64_t kCommitStep = 2ULL << 20;
inline constexpr uint64_t kHbmGrain = 4096;

}  // namespace onrt::emu
