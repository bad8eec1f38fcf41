// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm.h"

#include <cstddef>
#include <cstring>

#include "runtime/base/format.h"

namespace onrt::cc {

ShmEndpoint::ShmEndpoint(const Area& area, PeerFiles& files, std::vector<int> group_ranks, int rank)
    : area_(area), files_(files), group_ranks_(std::move(group_ranks)), rank_(rank) {
  caps_.name = "shm";
  caps_.load_store = true;
}

Result<std::byte*> ShmEndpoint::map(int rank, const MemoryRef& ref, uint64_t bytes) {
  if (ref.file == kAreaFile) {
    if (ref.offset > area_.bytes() || bytes > area_.bytes() - ref.offset) {
      return Status(NRT_INVALID, format("{} bytes at {} of the shared area: it has {}", bytes,
                                        ref.offset, area_.bytes()));
    }
    return area_.base() + ref.offset;
  }
  return files_.at(group_ranks_[static_cast<size_t>(rank)], ref.file, ref.offset, bytes);
}

MemoryRef ShmEndpoint::scratch(int rank, int area) const {
  return {kAreaFile, area_.scratch_offset(rank, area)};
}

MemoryRef ShmEndpoint::small(int rank, uint64_t call) const {
  return {kAreaFile, area_.small_offset(rank, call)};
}

Status ShmEndpoint::put(int to, const MemoryRef& ref, const std::byte* from, uint64_t bytes) {
  ONRT_ASSIGN_OR_RETURN(std::byte* const target, map(to, ref, bytes));
  std::memcpy(target, from, bytes);
  return ok_status();
}

Status ShmEndpoint::get(int from, const MemoryRef& ref, std::byte* to, uint64_t bytes) {
  ONRT_ASSIGN_OR_RETURN(const std::byte* const source, map(from, ref, bytes));
  std::memcpy(to, source, bytes);
  return ok_status();
}

// The read-modify-write is also the fence between the counter and the look at `sleeping`.
Status ShmEndpoint::signal(int to, uint32_t number, uint32_t amount) {
  std::atomic_ref(area_.counter(rank_, to, number)).fetch_add(amount);
  area_.wake(to);
  return ok_status();
}

uint64_t ShmEndpoint::counter(int from, uint32_t number) {
  return std::atomic_ref(area_.counter(from, rank_, number)).load(std::memory_order_acquire);
}

void ShmEndpoint::wake_peers() const {
  for (int peer = 0; peer < area_.ranks(); ++peer) {
    area_.wake(peer);
  }
}

uint64_t ShmEndpoint::arrive(uint32_t channel) {
  const uint64_t value = std::atomic_ref(area_.arrival(rank_, channel)).fetch_add(1) + 1;
  wake_peers();
  return value;
}

uint64_t ShmEndpoint::arrived(int rank, uint32_t channel) {
  return std::atomic_ref(area_.arrival(rank, channel)).load(std::memory_order_acquire);
}

// The number is stored last, in no locked instruction: the processor asks for all three lines at
// once. The fence stands before the look at `sleeping`, as the locked ones of signal() and arrive()
// do.
void ShmEndpoint::enter(const CallRecord& record) {
  std::memcpy(static_cast<void*>(&area_.entry(rank_, record.call).record), &record, sizeof(record));
  std::atomic_ref(area_.entered(rank_)).store(record.call, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  wake_peers();
}

// It may be one further. A slot is used again two calls later, when all ranks have left this one.
bool ShmEndpoint::entered(int rank, uint64_t call) {
  return std::atomic_ref(area_.entered(rank)).load(std::memory_order_acquire) >= call;
}

CallRecord ShmEndpoint::record(int rank, uint64_t call) {
  CallRecord copy;
  std::memcpy(static_cast<void*>(&copy), &area_.entry(rank, call).record, sizeof(copy));
  return copy;
}

void ShmEndpoint::publish_words(uint64_t call, std::span<const uint64_t> mine) {
  std::memcpy(area_.words(rank_, call), mine.data(), mine.size_bytes());
}

std::span<const uint64_t> ShmEndpoint::words(int rank, uint64_t call, size_t count) {
  return {area_.words(rank, call), count};
}

}  // namespace onrt::cc
