// SPDX-License-Identifier: Apache-2.0
// The Driver seam: everything above it is the same on silicon and on the emulator.
//
// Driver  - one row of the registry: can it serve this process, and if so open a Machine.
// Machine - this process' session with all devices of one host: topology, core ownership, HBM,
//           DMA rings, semaphores, notification queues, programs, counters.
//
// Every method of Machine defaults to "unsupported: <method>" (NRT_FAILURE), so a backend starts
// with the few that it has. The conformance suite in tests/conformance/driver runs against every
// registered backend. Thread-safe unless a comment says otherwise.
// Sources of the vocabulary: the public ndl.h groups and driver ioctls (docs/references.md).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/driver/core_statistics.h"

namespace onrt {

// ---- vocabulary -------------------------------------------------------------------------------

// Physical address as the device sees it: HBM stack base + offset, or a host bus address.
using DeviceAddress = uint64_t;

// Where an allocation is accounted: names and order are those of the vendor's memory table.
enum class MemoryCategory : uint8_t {
  kUncategorized,
  kModelCode,
  kConstants,
  kTensors,
  kScratchpad,
  kSharedScratchpad,
  kRuntime,
  kDmaRings,
  kNotifications,
  kCollectives,
  kProfiler,
};
inline constexpr size_t kMemoryCategories = 11;
std::string_view memory_category_name(MemoryCategory category);  // "model code", "tensors", ...

// Host memory that the runtime allocates itself.
enum class HostCategory : uint8_t { kTensors, kConstants, kDmaBuffers };
inline constexpr size_t kHostCategories = 3;

enum class Architecture : uint8_t { kV2 = 2, kV3 = 3, kV4 = 4 };  // trn1/inf2, trn2, trn3

// What `neuron-ls` and nrt_get_instance_info() need to know; constant for a session.
struct DeviceInfo {
  int index = 0;
  std::string pci_bdf;  // "0000:cc:00.0"
  int numa_node = -1;
  std::string cpu_affinity;            // "0-47,96-143"
  std::vector<int> connected_devices;  // in the order up, left, down, right of the torus
  uint64_t serial_number = 0;
};

struct MachineInfo {
  std::string instance_type;  // "trn2.48xlarge"
  std::string instance_id;    // "i-..." or "" when unknown
  std::string name;           // emulated machine's name; "" on silicon
  bool emulated = false;
  Architecture architecture = Architecture::kV3;
  std::string neuroncore_version;  // "v2", "v3", "v4"
  int device_count = 0;
  int physical_cores_per_device = 0;
  int logical_core_size = 1;  // LNC in force for this session: physical cores per logical one
  int default_logical_core_size = 1;
  int max_logical_core_size = 1;
  int hbm_per_device = 0;
  uint64_t hbm_bytes = 0;               // of one stack
  std::vector<DeviceAddress> hbm_base;  // per stack of a device; same on every device
  std::vector<DeviceInfo> devices;

  int logical_cores_per_device() const { return physical_cores_per_device / logical_core_size; }
  int logical_cores() const { return device_count * logical_cores_per_device(); }
};

// A core here is always a *logical* core, counted over the whole machine: device x cores + index.
struct CoreRange {
  int start = 0;
  int count = 0;
};

struct CoreRequest {
  int start = -1;  // -1: first fit
  int count = 0;   // consecutive cores
};

// Who holds a core: for messages ("held by pid 42 (train.py)") and tools.
struct CoreOwner {
  int core = 0;
  int pid = 0;
  std::string command;
};

// A stack of HBM. Logical core c of a device reaches every stack of it; its own is `hbm_of_core`.
struct HbmId {
  int device = 0;
  int stack = 0;
  friend bool operator==(const HbmId&, const HbmId&) = default;
};

// A range of HBM that this session owns until it frees it, ends or dies.
struct HbmExtent {
  HbmId hbm;
  DeviceAddress address = 0;
  uint64_t size = 0;
};

struct HbmUsage {
  uint64_t limit = 0;    // bytes that clients can use
  uint64_t used = 0;     // bytes in extents of all processes
  uint64_t largest = 0;  // largest extent that could be had now
};

// One element of a DMA ring: the engine copies `size` bytes. At most kMaxDescriptorBytes.
// Source of the limit: 64 KiB per descriptor in the public kernel driver.
struct DmaDescriptor {
  DeviceAddress source = 0;
  DeviceAddress destination = 0;
  uint32_t size = 0;
  uint32_t flags = 0;  // kDmaFlag*
};
inline constexpr uint32_t kMaxDescriptorBytes = 64 * 1024;
inline constexpr uint32_t kDmaFlagFill = 1;  // source is a 64-bit pattern, not an address

struct DmaQueueId {
  int device = 0;
  int engine = 0;
  int queue = 0;
};

// Notification types and their numbers: nq types of the public driver.
enum class NotificationType : uint8_t { kTrace, kNotify, kEvent, kError, kTraceDma, kThrottle };

struct Notification {
  NotificationType type = NotificationType::kNotify;
  uint8_t phase = 0;
  int32_t status = 0;            // NRT_STATUS of the execution it reports
  uint64_t program = 0;          // ProgramId
  uint64_t sequence = 0;         // value given to program_start
  uint64_t device_start_ns = 0;  // device clock, see DESIGN "two clocks"
  uint64_t device_end_ns = 0;
  uint64_t busy_ns = 0;  // wall time that the core was busy with it; 0: not known
};

using ProgramId = uint64_t;

// Where the loader has put the parts of one program.
struct ProgramImage {
  HbmId hbm;
  DeviceAddress code = 0;
  uint64_t code_size = 0;
  DeviceAddress constants = 0;
  uint64_t constants_size = 0;
  // For tools: the model, and what of its bytes is accounted to it (constants may be another's).
  std::string name;
  uint32_t model = 0;
  std::array<uint8_t, 16> uuid{};
  uint64_t code_bytes = 0;
  uint64_t constants_bytes = 0;
};

struct ProgramInfo {
  ProgramId id = 0;
  uint32_t io_slots = 0;       // length of the io table that program_start expects
  uint64_t scratch_bytes = 0;  // scratch that program_start must be given
  uint64_t device_ns = 0;      // device time of one execution by the timing model; 0: not static
  uint64_t multiply_accumulates = 0;  // of one execution; each loop counts as one turn
};

struct ProgramStart {
  std::span<const DeviceAddress> io;   // by slot: inputs, then outputs
  std::span<const uint64_t> io_bytes;  // size of each, checked against the program
  DeviceAddress scratch = 0;
  uint64_t scratch_size = 0;
  uint64_t sequence = 0;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

// Monotonic counters of one device; a tool or test reads them, the backend alone writes them.
struct DeviceCounters {
  uint64_t dma_descriptors = 0;
  uint64_t dma_bytes = 0;
  uint64_t programs_started = 0;
  uint64_t programs_failed = 0;
  uint64_t hbm_corrected_errors = 0;
  uint64_t hbm_uncorrected_errors = 0;
};

struct MachineRequest {
  int logical_core_size = 0;    // 0: default of the instance type
  bool attach = true;           // false: look only (counts, tools); claims and memory are refused
  std::string runtime_version;  // for tools: "2.35.0"
};

// ---- the seam ---------------------------------------------------------------------------------

class Machine {
 public:
  virtual ~Machine() = default;

  virtual const MachineInfo& info() const = 0;

  // Cores. Claims are consecutive, first fit when start is -1; NRT_RESOURCE with the free range,
  // owners' pids and commands when there is no such run.
  virtual Result<CoreRange> claim_cores(const CoreRequest& request);
  virtual Status release_cores(const CoreRange& range);
  virtual Result<std::vector<CoreOwner>> core_owners();
  virtual Status reset_core(int core);
  virtual Result<HbmId> hbm_of_core(int core);

  // HBM. Sizes are rounded up to 4096. Memory that another owner could have written reads as zero.
  // NRT_RESOURCE names asked, free, largest and, for the emulator, backing.
  virtual Result<HbmExtent> allocate_extent(HbmId hbm, uint64_t size, uint64_t alignment);
  virtual Status free_extent(const HbmExtent& extent);
  virtual Result<HbmUsage> hbm_usage(HbmId hbm);
  // Makes a range ready for use (backing pages on the emulator); NRT_RESOURCE when it can't be.
  // Called by the runtime before the first DMA, mapping or program that touches the range.
  virtual Status commit(HbmId hbm, DeviceAddress address, uint64_t size);
  // Host view of [address, address + size) of an owned extent; valid until the extent is freed.
  virtual Result<std::byte*> map(HbmId hbm, DeviceAddress address, uint64_t size);
  // A descriptor through which another process could map the range, and the range's offset in it.
  virtual Result<int> share(HbmId hbm, DeviceAddress address, uint64_t size, uint64_t* offset);
  // Reports how the extents are used, for other processes' tools. `bytes` is signed.
  virtual Status account(int core, MemoryCategory category, int64_t bytes);
  // The same for host memory of this process.
  virtual Status account_host(HostCategory category, int64_t bytes);
  // Where this process counts for other processes' tools; valid until the core is released.
  virtual Result<CoreStatistics*> statistics(int core);

  // Host memory for DMA: a bus address for [data, data + size) until unmap_host().
  virtual Result<DeviceAddress> map_host(int device, void* data, uint64_t size);
  virtual Status unmap_host(int device, DeviceAddress address);

  // DMA rings. A queue belongs to its creator; submit and wait by one thread at a time per queue.
  virtual Result<DmaQueueId> create_dma_queue(int device, int descriptor_count);
  virtual Status destroy_dma_queue(const DmaQueueId& queue);
  // Writes descriptors into the ring and rings the doorbell. NRT_QUEUE_FULL when they don't fit.
  virtual Status dma_submit(const DmaQueueId& queue, std::span<const DmaDescriptor> descriptors);
  // Waits until everything submitted is complete. A failed descriptor: NRT_EXEC_HW_ERR_DMA_ABORT;
  // the queue stays usable.
  virtual Status dma_wait(const DmaQueueId& queue, std::chrono::steady_clock::time_point deadline);

  // Semaphores and events of a core. Indices are checked: NRT_INVALID.
  virtual Result<uint32_t> semaphore_read(int core, int index);
  virtual Status semaphore_write(int core, int index, uint32_t value);
  virtual Status semaphore_add(int core, int index, int32_t delta);
  virtual Result<bool> event_read(int core, int index);
  virtual Status event_write(int core, int index, bool value);

  // Notification queues. Capacity is a power of two; overflow is NRT_EXEC_SW_NQ_OVERFLOW at poll.
  virtual Status create_notification_queue(int core, NotificationType type, int capacity);
  // False when empty.
  virtual Result<bool> poll_notification(int core, NotificationType type, Notification* out);
  virtual Status wait_notification(int core, NotificationType type,
                                   std::chrono::steady_clock::time_point deadline,
                                   Notification* out);

  // Programs. The image has been copied to HBM by DMA; the bytes are untrusted: NRT_INVALID with
  // the offset, NRT_UNSUPPORTED_NEFF_VERSION for an encoding this backend does not know.
  virtual Result<ProgramInfo> program_load(int core, const ProgramImage& image);
  virtual Status program_unload(int core, ProgramId program);
  // Starts one execution; completion arrives in the core's kNotify queue (the emulator may run the
  // program on the calling thread before it returns). A started program always notifies.
  virtual Status program_start(int core, ProgramId program, const ProgramStart& start);

  virtual Result<DeviceCounters> counters(int device);
};

class Driver {
 public:
  virtual ~Driver() = default;
  virtual std::string_view name() const = 0;
  // Ok when open() may succeed; otherwise why not ("OPENNRT_EMULATE is not set"). No side effects.
  virtual Status probe(const Context& context) const = 0;
  // `context` outlives the machine.
  virtual Result<std::unique_ptr<Machine>> open(const Context& context,
                                                const MachineRequest& request) const = 0;
};

}  // namespace onrt
