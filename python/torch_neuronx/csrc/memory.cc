// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "python/torch_neuronx/csrc/device.h"
#include "python/torch_neuronx/csrc/queue.h"

namespace tnx {
namespace {
struct DeviceMemory;
}

// One nrt_tensor_allocate.
struct Segment {
  int device = 0;
  DeviceMemory* memory = nullptr;
  size_t size = 0;
  bool small = false;
  nrt_tensor_t* tensor = nullptr;
  uintptr_t address = 0;
  Block* first = nullptr;  // at offset 0: splitting and merging keep it
};

namespace {

// Sizes as in TorchNeuron's documentation: small blocks share segments of 2 MiB, from 16 MiB on a
// segment has the size that was asked for.
constexpr size_t kGranule = 512;  // of blocks
constexpr size_t kSmallBlock = size_t{1} << 20;
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargeSegment = size_t{20} << 20;
constexpr size_t kExactSegment = size_t{16} << 20;
constexpr size_t kSegmentGranule = size_t{2} << 20;
// A block is remembered under this many views before the oldest is dropped; more than a program
// has tensors, so that none that is about to be bound goes.
constexpr size_t kMostViews = 20000;
constexpr size_t kSmallSizes = kSmallBlock / kGranule;  // how many sizes small blocks have

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->address() < b->address();
  }
};

struct Pool {
  std::set<Block*, BySize> free;
};

struct DeviceMemory {
  std::mutex mutex;  // of everything here, and of the blocks' lists of views
  std::set<Segment*> segments;
  Pool pools[2];  // small, large
  // Small blocks that were freed, by size: most are wanted again at once, and keep their views.
  std::array<std::vector<Block*>, kSmallSizes> cached;
  size_t cached_count = 0;
  // Handles that go when the queue is past its task of this number.
  std::deque<std::pair<uint64_t, nrt_tensor_t*>> retired;
  MemoryStats stats;
};

// Never destroyed: tensors may be freed while the process ends.
struct Devices {
  std::mutex mutex;
  std::map<int, std::unique_ptr<DeviceMemory>> memories;

  static Devices& get() {
    static auto* const self = new Devices;
    return *self;
  }
};

DeviceMemory& memory_of(int device) {
  Devices& devices = Devices::get();
  const std::lock_guard lock(devices.mutex);
  auto& memory = devices.memories[device];
  if (memory == nullptr) {
    memory = std::make_unique<DeviceMemory>();
  }
  return *memory;
}

std::atomic<uint64_t> freed_handles{0};

void free_handle(nrt_tensor_t* tensor) {
  freed_handles.fetch_add(1);
  runtime().nrt_tensor_free(&tensor);
}

// With the device's lock, all of these.
void drop_views(Block* block) {
  const uint64_t last = queued(block->device());
  for (const Block::View& view : block->views) {
    block->segment->memory->retired.emplace_back(last, view.tensor);
  }
  block->views.clear();
}

void free_retired(DeviceMemory& memory, int device) {
  if (memory.retired.empty()) {
    return;
  }
  const uint64_t done = finished(device);
  while (!memory.retired.empty() && memory.retired.front().first <= done) {
    free_handle(memory.retired.front().second);
    memory.retired.pop_front();
  }
}

// Joins `block` with the neighbour if that is free, and gives the whole.
Block* merge(Pool& pool, Block* block, Block* neighbour) {
  if (neighbour == nullptr || !neighbour->free) {
    return block;
  }
  pool.free.erase(neighbour);
  drop_views(neighbour);
  drop_views(block);
  Block* first = block->offset < neighbour->offset ? block : neighbour;
  Block* second = first == block ? neighbour : block;
  first->size += second->size;
  first->next = second->next;
  if (first->next != nullptr) {
    first->next->previous = first;
  }
  delete second;
  return first;
}

void put_back(DeviceMemory& memory, Block* block) {
  Pool& pool = memory.pools[block->segment->small ? 0 : 1];
  block = merge(pool, block, block->previous);
  block = merge(pool, block, block->next);
  block->free = true;
  pool.free.insert(block);
}

void put_back_cached(DeviceMemory& memory) {
  if (memory.cached_count == 0) {
    return;
  }
  for (std::vector<Block*>& list : memory.cached) {
    for (Block* block : list) {
      block->cached = false;
      put_back(memory, block);
    }
    list.clear();
  }
  memory.cached_count = 0;
}

// Gives back all free segments of the pool. Nothing is queued.
void trim(DeviceMemory& memory, Pool& pool) {
  for (auto at = pool.free.begin(); at != pool.free.end();) {
    Block* block = *at;
    if (block->previous != nullptr || block->next != nullptr) {
      ++at;
      continue;
    }
    at = pool.free.erase(at);
    Segment* segment = block->segment;
    drop_views(block);
    free_retired(memory, segment->device);
    free_handle(segment->tensor);
    memory.stats.reserved_bytes.add(-static_cast<int64_t>(segment->size));
    memory.stats.segments.add(-1);
    memory.segments.erase(segment);
    delete segment;
    delete block;
  }
}

// Waits for the queue, so that nothing that goes is in use.
void trim(DeviceMemory& memory, int device) {
  drain(device);
  put_back_cached(memory);
  trim(memory, memory.pools[0]);
  trim(memory, memory.pools[1]);
}

[[noreturn]] void throw_out_of_memory(const DeviceMemory& memory, int device, size_t size) {
  const auto mib = [](int64_t bytes) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
    return std::string(text);
  };
  const char* detail = runtime().onrt_last_error != nullptr ? runtime().onrt_last_error() : "";
  throw OutOfMemory("neuron:" + std::to_string(device) + " is out of memory: tried to allocate " +
                    mib(static_cast<int64_t>(size)) + " where tensors hold " +
                    mib(memory.stats.allocated_bytes.current) + " (" +
                    mib(memory.stats.reserved_bytes.current) + " reserved). " + detail);
}

Block* new_segment(DeviceMemory& memory, int device, size_t size, bool small) {
  const size_t bytes = small ? kSmallSegment
                       : size < kExactSegment
                           ? std::max(kLargeSegment, round_up(size, kSegmentGranule))
                           : round_up(size, kSegmentGranule);
  const int core = core_of(device);
  nrt_tensor_t* tensor = nullptr;
  const auto try_allocate = [&](size_t n) {
    return runtime().nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, n, "torch", &tensor);
  };
  size_t got = bytes;
  NRT_STATUS status = try_allocate(bytes);
  if (status == NRT_RESOURCE) {
    ++memory.stats.retries;
    trim(memory, device);
    status = try_allocate(bytes);
  }
  if (status == NRT_RESOURCE && round_up(size, kGranule) < bytes) {
    got = round_up(size, kGranule);
    status = try_allocate(got);
  }
  if (status == NRT_RESOURCE) {
    ++memory.stats.out_of_memory;
    throw_out_of_memory(memory, device, size);
  }
  check(status, "nrt_tensor_allocate");
  auto* segment = new Segment;
  segment->device = device;
  segment->memory = &memory;
  segment->size = got;
  segment->small = small;
  segment->tensor = tensor;
  segment->address = reinterpret_cast<uintptr_t>(runtime().nrt_tensor_get_va(tensor));
  auto* block = new Block;
  block->segment = segment;
  block->size = got;
  memory.stats.reserved_bytes.add(static_cast<int64_t>(got));
  memory.stats.segments.add(1);
  segment->first = block;
  memory.segments.insert(segment);
  return block;
}

// A free block of at least `size` bytes, out of its pool; null if there is none.
Block* take(Pool& pool, size_t size) {
  Segment none;
  Block key;
  key.segment = &none;
  key.size = size;
  const auto at = pool.free.lower_bound(&key);
  if (at == pool.free.end()) {
    return nullptr;
  }
  Block* block = *at;
  pool.free.erase(at);
  return block;
}

// Makes what is beyond `size` a free block of its own.
void split(Pool& pool, Block* block, size_t size) {
  drop_views(block);
  auto* remainder = new Block;
  remainder->segment = block->segment;
  remainder->offset = block->offset + size;
  remainder->size = block->size - size;
  remainder->free = true;
  remainder->previous = block;
  remainder->next = block->next;
  if (remainder->next != nullptr) {
    remainder->next->previous = remainder;
  }
  block->next = remainder;
  block->size = size;
  pool.free.insert(remainder);
}

Block* find_block(DeviceMemory& memory, int device, size_t size) {
  const bool small = size < kSmallBlock;
  if (small) {
    std::vector<Block*>& list = memory.cached[size / kGranule];
    if (!list.empty()) {
      Block* block = list.back();
      list.pop_back();
      --memory.cached_count;
      block->cached = false;
      return block;
    }
  }
  Pool& pool = memory.pools[small ? 0 : 1];
  Block* block = take(pool, size);
  if (block == nullptr && small && memory.cached_count > 0) {
    put_back_cached(memory);
    block = take(pool, size);
  }
  if (block == nullptr) {
    block = new_segment(memory, device, size, small);
  }
  block->free = false;
  if (block->size - size >= (small ? kGranule : kSmallBlock)) {
    split(pool, block, size);
  }
  return block;
}

}  // namespace

int Block::device() const { return segment->device; }
nrt_tensor_t* Block::segment_tensor() const { return segment->tensor; }
void* Block::address() const { return reinterpret_cast<void*>(segment->address + offset); }

void MemoryStats::Counter::add(int64_t n) {
  current += n;
  peak = std::max(peak, current);
  (n > 0 ? allocated : freed) += n > 0 ? n : -n;
}

Block* allocate(int device, size_t bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  core_of(device);  // the device is ours, and this isn't a forked child
  const size_t size = round_up(bytes, kGranule);
  if (size < bytes) {
    throw OutOfMemory("a tensor of " + std::to_string(bytes) + " bytes is larger than any memory");
  }
  DeviceMemory& memory = memory_of(device);
  const std::lock_guard lock(memory.mutex);
  free_retired(memory, device);
  Block* block = find_block(memory, device, size);
  block->requested = bytes;
  memory.stats.allocated_bytes.add(static_cast<int64_t>(block->size));
  memory.stats.requested_bytes.add(static_cast<int64_t>(bytes));
  memory.stats.allocations.add(1);
  return block;
}

void release(Block* block) {
  if (block == nullptr || !handles_live()) {
    return;
  }
  DeviceMemory& memory = *block->segment->memory;
  const std::lock_guard lock(memory.mutex);
  memory.stats.allocated_bytes.add(-static_cast<int64_t>(block->size));
  memory.stats.requested_bytes.add(-static_cast<int64_t>(block->requested));
  memory.stats.allocations.add(-1);
  if (block->size < kSmallBlock) {
    block->cached = true;
    memory.cached[block->size / kGranule].push_back(block);
    ++memory.cached_count;
  } else {
    put_back(memory, block);
  }
}

Block* block_at(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  Devices& devices = Devices::get();
  const std::lock_guard lock(devices.mutex);
  for (const auto& [device, memory] : devices.memories) {
    const std::lock_guard memory_lock(memory->mutex);
    for (const Segment* segment : memory->segments) {
      if (wanted < segment->address || wanted >= segment->address + segment->size) {
        continue;
      }
      for (Block* block = segment->first; block != nullptr; block = block->next) {
        if (segment->address + block->offset == wanted) {
          return block->free || block->cached ? nullptr : block;
        }
      }
    }
  }
  return nullptr;
}

namespace {

void check_block(const Block* block) {
  if (block == nullptr) {
    throw Error("the tensor's storage has no device memory: it was resized to 0 bytes or freed");
  }
}

}  // namespace

nrt_tensor_t* tensor_of(Block* block, size_t offset, size_t bytes) {
  check_block(block);
  const std::lock_guard lock(block->segment->memory->mutex);
  for (auto view = block->views.rbegin(); view != block->views.rend(); ++view) {
    if (view->offset == offset && view->bytes == bytes) {
      return view->tensor;
    }
  }
  nrt_tensor_t* tensor = nullptr;
  check(runtime().nrt_tensor_allocate_slice(block->segment->tensor, block->offset + offset, bytes,
                                            "torch", &tensor),
        "nrt_tensor_allocate_slice");
  if (block->views.size() >= kMostViews) {
    block->segment->memory->retired.emplace_back(queued(block->device()),
                                                 block->views.front().tensor);
    block->views.erase(block->views.begin());
  }
  block->views.push_back({offset, bytes, tensor});
  return tensor;
}

uint64_t handles_freed() { return freed_handles.load(); }

void empty_cache(int device) {
  synchronize(device);
  DeviceMemory& memory = memory_of(device);
  const std::lock_guard lock(memory.mutex);
  trim(memory, device);
}

MemoryStats memory_stats(int device) {
  DeviceMemory& memory = memory_of(device);
  const std::lock_guard lock(memory.mutex);
  return memory.stats;
}

void reset_peak_stats(int device) {
  DeviceMemory& memory = memory_of(device);
  const std::lock_guard lock(memory.mutex);
  MemoryStats& s = memory.stats;
  for (auto* counter :
       {&s.allocated_bytes, &s.requested_bytes, &s.reserved_bytes, &s.allocations, &s.segments}) {
    counter->peak = counter->current;
  }
}

void reset_accumulated_stats(int device) {
  DeviceMemory& memory = memory_of(device);
  const std::lock_guard lock(memory.mutex);
  MemoryStats& s = memory.stats;
  for (auto* counter :
       {&s.allocated_bytes, &s.requested_bytes, &s.reserved_bytes, &s.allocations, &s.segments}) {
    counter->allocated = 0;
    counter->freed = 0;
  }
  s.retries = 0;
  s.out_of_memory = 0;
}

void write(Block* block, size_t offset, const void* from, size_t bytes) {
  check_block(block);
  write(block->device(), block->segment->tensor, block->offset + offset, from, bytes);
}

void read(Block* block, size_t offset, void* to, size_t bytes) {
  check_block(block);
  read(block->device(), block->segment->tensor, block->offset + offset, to, bytes);
}

void copy(Block* from, size_t from_offset, Block* to, size_t to_offset, size_t bytes) {
  copy(to->device(), tensor_of(from, from_offset, bytes), tensor_of(to, to_offset, bytes), bytes);
}

}  // namespace tnx
