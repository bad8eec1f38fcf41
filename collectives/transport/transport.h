// SPDX-License-Identifier: Apache-2.0
// The transport seam: how the ranks of one group reach each other's memory and counters. The verbs
// are those of libfabric (one-sided put and get, counters as immediates, progress by polling), so
// that a network fits behind the same calls.
//
// shm       - ranks of one host (shm.h): load and store
// loopback  - many ranks in one thread: messages, checked, in an order that a seed chooses; with
//             faults on the way (fault.h), which are found and named (loopback.h): rehearsals,
//             tests
//
// Nothing here blocks. An endpoint belongs to one thread at a time; ranks are places in the group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "collectives/transport/memory_ref.h"
#include "collectives/transport/record.h"
#include "runtime/base/status.h"

namespace onrt::cc {

inline constexpr uint32_t kTransportVersion = 1;

struct TransportCaps {
  uint32_t version = kTransportVersion;
  std::string_view name;
  // map() gives addresses that the processor can load from and store to. Without it data moves by
  // put() and get() only.
  bool load_store = false;
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual const TransportCaps& caps() const = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Host address of `bytes` at a place of `rank`. Only with load_store.
  virtual Result<std::byte*> map(int rank, const MemoryRef& ref, uint64_t bytes) = 0;
  // This rank's scratch memory, and that of peers as a MemoryRef. small(): kSmallBytes that lie
  // beside the record of a call; two are kept, by the parity of `call`.
  virtual uint64_t scratch_bytes() const = 0;  // of one area; areas 0, 1: alternate; 2: the rest
  virtual MemoryRef scratch(int rank, int area) const = 0;
  virtual MemoryRef small(int rank, uint64_t call) const = 0;

  // Data. They take effect in order per peer, and before signals that follow them.
  virtual Status put(int to, const MemoryRef& ref, const std::byte* from, uint64_t bytes) = 0;
  virtual Status get(int from, const MemoryRef& ref, std::byte* to, uint64_t bytes) = 0;
  // Counters (from, to, number) only grow. What came before is visible to whoever sees the growth.
  virtual Status signal(int to, uint32_t number, uint32_t amount) = 0;
  virtual uint64_t counter(int from, uint32_t number) = 0;
  // True: everything that was put or signalled has come; false: not yet, progress() goes on. An
  // error of an earlier call shows here at last.
  virtual Result<bool> flush() = 0;

  // Barriers: a number per (rank, channel) that only grows.
  virtual uint64_t arrive(uint32_t channel) = 0;  // one more; returns it
  virtual uint64_t arrived(int rank, uint32_t channel) = 0;

  // What this rank is about to do, for its peers to compare; two are kept, by the parity of `call`.
  // What came before is visible to whoever sees that the rank has entered the call.
  virtual void enter(const CallRecord& record) = 0;
  virtual bool entered(int rank, uint64_t call) = 0;
  virtual CallRecord record(int rank, uint64_t call) = 0;
  // Words that belong to the record that follows (counts of variable sizes): `mine` has as many on
  // every rank.
  virtual void publish_words(uint64_t call, std::span<const uint64_t> mine) = 0;
  virtual std::span<const uint64_t> words(int rank, uint64_t call, size_t count) = 0;
  virtual size_t most_words() const = 0;

  // Moves things along that need it; the first failure of the transport is returned ever after.
  virtual Status progress() = 0;
};

}  // namespace onrt::cc
