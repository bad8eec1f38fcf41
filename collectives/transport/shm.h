// SPDX-License-Identifier: Apache-2.0
// Ranks of one host: counters and scratch memory in the group's shared area, buffers in files that
// the ranks have offered each other. Every access is a load or a store.
#pragma once

#include <memory>
#include <vector>

#include "collectives/transport/area.h"
#include "collectives/transport/peer_files.h"
#include "collectives/transport/transport.h"

namespace onrt::cc {

class ShmEndpoint final : public Endpoint {
 public:
  // `area` and `files` are borrowed; group_ranks[i] is the rank in `files` of the group's rank i.
  ShmEndpoint(const Area& area, PeerFiles& files, std::vector<int> group_ranks, int rank);

  const TransportCaps& caps() const override { return caps_; }
  int rank() const override { return rank_; }
  int ranks() const override { return area_.ranks(); }
  Result<std::byte*> map(int rank, const MemoryRef& ref, uint64_t bytes) override;
  uint64_t scratch_bytes() const override { return kScratchBytes; }
  MemoryRef scratch(int rank, int area) const override;
  MemoryRef small(int rank, uint64_t call) const override;
  Status put(int to, const MemoryRef& ref, const std::byte* from, uint64_t bytes) override;
  Status get(int from, const MemoryRef& ref, std::byte* to, uint64_t bytes) override;
  Status signal(int to, uint32_t number, uint32_t amount) override;
  uint64_t counter(int from, uint32_t number) override;
  Result<bool> flush() override { return true; }
  uint64_t arrive(uint32_t channel) override;
  uint64_t arrived(int rank, uint32_t channel) override;
  void enter(const CallRecord& record) override;
  bool entered(int rank, uint64_t call) override;
  CallRecord record(int rank, uint64_t call) override;
  void publish_words(uint64_t call, std::span<const uint64_t> mine) override;
  std::span<const uint64_t> words(int rank, uint64_t call, size_t count) override;
  size_t most_words() const override { return area_.most_words(); }
  Status progress() override { return ok_status(); }

 private:
  void wake_peers() const;

  // The number of the file that stands for the area itself in a MemoryRef.
  static constexpr int32_t kAreaFile = 1 << 30;

  const Area& area_;
  PeerFiles& files_;
  const std::vector<int> group_ranks_;
  const int rank_;
  TransportCaps caps_;
};

}  // namespace onrt::cc
