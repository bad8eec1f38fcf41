// SPDX-License-Identifier: Apache-2.0
// Device memory: a caching allocator over NRT tensors. Segments come from nrt_tensor_allocate;
// blocks are ranges of a segment that are handed out, split and merged. A freed block is at once
// free for the next allocation, whatever the queue still does to it: what the new owner queues
// comes later. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "python/torch_neuronx/csrc/libraries.h"

namespace tnx {

struct Segment;

// A range of device memory, given to one storage. Its address only names it: it must not be
// dereferenced.
struct Block {
  Segment* segment = nullptr;
  size_t offset = 0;  // in the segment
  size_t size = 0;    // rounded up
  size_t requested = 0;
  bool free = false;          // in the pool, joined with free neighbours
  bool cached = false;        // kept as it is for the next allocation of its size
  Block* previous = nullptr;  // neighbours in the segment
  Block* next = nullptr;
  // Views of the block that programs were bound to: offset in the block, bytes, handle.
  struct View {
    size_t offset;
    size_t bytes;
    nrt_tensor_t* tensor;
  };
  std::vector<View> views;

  int device() const;
  void* address() const;
  nrt_tensor_t* segment_tensor() const;  // of the whole segment
};

struct MemoryStats {
  struct Counter {
    int64_t current = 0;
    int64_t peak = 0;
    int64_t allocated = 0;  // ever
    int64_t freed = 0;
    void add(int64_t n);
  };
  Counter allocated_bytes;  // of blocks in use, rounded
  Counter requested_bytes;
  Counter reserved_bytes;  // of segments
  Counter allocations;
  Counter segments;
  int64_t retries = 0;  // allocations that had to empty the cache first
  int64_t out_of_memory = 0;
};

// Throws OutOfMemory. Zero bytes give a null block.
Block* allocate(int device, size_t bytes);
void release(Block* block);
// The block in use that begins at an address, for memory that came back to us as a bare pointer;
// null if there is none.
Block* block_at(const void* address);
// The NRT tensor of `bytes` bytes at `offset` of the block; belongs to the block, and outlives it
// until the queue is past what was queued with it.
nrt_tensor_t* tensor_of(Block* block, size_t offset, size_t bytes);

// How many handles were freed: a number that was seen before may belong to another tensor since.
uint64_t handles_freed();

// Gives segments that are wholly free back to the runtime.
void empty_cache(int device);
MemoryStats memory_stats(int device);
void reset_peak_stats(int device);
void reset_accumulated_stats(int device);

// In the order of the device's queue (queue.h). Throw Error for a null block.
void write(Block* block, size_t offset, const void* from, size_t bytes);
void read(Block* block, size_t offset, void* to, size_t bytes);
// `bytes` bytes between blocks of one device.
void copy(Block* from, size_t from_offset, Block* to, size_t to_offset, size_t bytes);

}  // namespace tnx
