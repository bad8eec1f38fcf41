// SPDX-License-Identifier: Apache-2.0
// Many ranks in one thread. Nobody maps anybody's memory: data moves in messages, which the network
// delivers in an order that a seed chooses, within what a network promises: the messages of a pair
// come in order, and a signal or an arrival comes after the data that its rank has put before it.
// With a FaultPlan it breaks that promise.
//
// The check is the receiver's: a message that is damaged, missing, early or late ends the endpoint
// with NRT_EXEC_HW_ERR_COLLECTIVES and its name. A message of which no receipt comes is missed by
// its sender. Without checks the same faults give wrong results, or ranks that wait for ever.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "collectives/transport/area.h"
#include "collectives/transport/fault.h"
#include "collectives/transport/transport.h"

namespace onrt::cc {

inline constexpr uint64_t kLoopbackScratchBytes = 64 * 1024;  // of each of a rank's areas

class LoopbackEndpoint;

struct LoopbackOptions {
  uint64_t seed = 1;
  bool check = true;
  FaultPlan faults;
  // Deliveries after which a message without a receipt counts as lost. More than any delay.
  uint64_t patience = 20000;
};

// Thread-compatible, with its endpoints.
class LoopbackNetwork {
 public:
  LoopbackNetwork(int ranks, LoopbackOptions options);
  ~LoopbackNetwork();

  Endpoint& endpoint(int rank);
  // Memory of a rank that others may put to and get from. Borrowed until the network ends.
  MemoryRef offer(int rank, std::span<std::byte> memory);

  uint64_t faults_made() const { return injector_.made(); }
  uint64_t deliveries() const { return clock_; }

 private:
  friend class LoopbackEndpoint;
  struct Flight {
    Message message;
    uint64_t puts_before = 0;  // of its rank, that must have come first
    uint64_t not_before = 0;   // on the clock
  };
  using Stream = std::deque<Flight>;

  void post(Message message);
  void enqueue(Stream& stream, Flight flight, Fault fault);
  void deliver();  // one message, if any can come
  bool deliverable(const Stream& stream) const;
  // The reply to a get; nothing if it was lost.
  std::optional<Message> fetch(int to, int from, const MemoryRef& ref, uint64_t bytes);
  Stream& stream(int from, int to) {
    return streams_[static_cast<size_t>(from) * static_cast<size_t>(ranks_) +
                    static_cast<size_t>(to)];
  }

  const int ranks_;
  const LoopbackOptions options_;
  FaultInjector injector_;
  std::mt19937_64 chooser_;
  uint64_t clock_ = 0;  // deliveries that were tried
  std::vector<Stream> streams_;
  std::vector<uint64_t> puts_posted_, puts_ended_;  // by rank; lost ones have ended too
  std::vector<std::unique_ptr<LoopbackEndpoint>> endpoints_;
};

class LoopbackEndpoint final : public Endpoint {
 public:
  LoopbackEndpoint(LoopbackNetwork& network, int rank);

  const TransportCaps& caps() const override { return caps_; }
  int rank() const override { return rank_; }
  int ranks() const override { return network_.ranks_; }
  Result<std::byte*> map(int rank, const MemoryRef& ref, uint64_t bytes) override;  // own only
  uint64_t scratch_bytes() const override { return kLoopbackScratchBytes; }
  MemoryRef scratch(int rank, int area) const override;
  MemoryRef small(int rank, uint64_t call) const override;
  Status put(int to, const MemoryRef& ref, const std::byte* from, uint64_t bytes) override;
  Status get(int from, const MemoryRef& ref, std::byte* to, uint64_t bytes) override;
  Status signal(int to, uint32_t number, uint32_t amount) override;
  uint64_t counter(int from, uint32_t number) override;
  Result<bool> flush() override;
  uint64_t arrive(uint32_t channel) override;
  uint64_t arrived(int rank, uint32_t channel) override;
  void enter(const CallRecord& record) override;
  bool entered(int rank, uint64_t call) override;
  CallRecord record(int rank, uint64_t call) override;
  void publish_words(uint64_t call, std::span<const uint64_t> mine) override;
  std::span<const uint64_t> words(int rank, uint64_t call, size_t count) override;
  size_t most_words() const override { return kMostWords; }
  Status progress() override;

 private:
  friend class LoopbackNetwork;
  static constexpr size_t kMostWords = 4096;
  // What this rank knows of a peer.
  struct Peer {
    std::array<uint64_t, kAreaChannels> counters{};
    std::array<uint64_t, kAreaChannels> arrivals{};
    std::array<CallRecord, 2> records;
    std::array<std::vector<uint64_t>, 2> words;
    uint64_t sent = 0;                                  // messages to it
    uint64_t received = 0;                              // messages from it, in order
    uint64_t receipts = 0;                              // of those that were sent
    std::deque<std::pair<uint64_t, uint64_t>> waiting;  // sequence and clock, oldest first
  };

  void send(Message message);
  void receive(const Message& message);
  Status verify(const Message& message, Peer& peer) const;
  Status apply(const Message& message, Peer& peer);
  std::span<std::byte> memory(const MemoryRef& ref, uint64_t bytes);
  Peer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }

  LoopbackNetwork& network_;
  const int rank_;
  TransportCaps caps_;
  std::vector<std::byte> scratch_;
  std::vector<std::span<std::byte>> offered_;
  std::vector<Peer> peers_;
  Status failure_;  // the first
};

}  // namespace onrt::cc
