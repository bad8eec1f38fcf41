// SPDX-License-Identifier: Apache-2.0
// What can go wrong with messages on their way, in a seeded and therefore repeatable manner.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "collectives/transport/message.h"

namespace onrt::cc {

enum class Fault : uint8_t {
  kNone,
  kDelay,      // the stream of the pair stands still for a while; nothing is lost
  kDrop,       // the message never comes
  kDuplicate,  // it comes twice
  kReorder,    // the next message of the pair overtakes it
  kCorrupt,    // one bit of its data or header is another
  kBlackHole,  // from it on, nothing of the pair comes
};
inline constexpr int kFaults = 7;
std::string_view fault_name(Fault fault);
// NRT_INVALID lists the names.
Result<Fault> parse_fault(std::string_view name);

struct FaultPlan {
  Fault fault = Fault::kNone;
  uint64_t seed = 0;
  double probability = 1;  // for each message that matches
  int from = -1;           // only this rank's messages; -1: any
  int to = -1;
  std::optional<MessageKind> only;  // this kind of message
  uint64_t after = 0;               // messages that match and pass first
  uint64_t most = 1;                // faults that are made
  uint64_t ticks = 200;             // of a delay
};

// Thread-compatible.
class FaultInjector {
 public:
  explicit FaultInjector(FaultPlan plan) : plan_(plan), chooser_(plan.seed) {}

  // What happens to this message. kCorrupt has been done to it already.
  Fault decide(Message& message);
  uint64_t made() const { return made_; }  // faults so far
  const FaultPlan& plan() const { return plan_; }

 private:
  bool matches(const Message& message) const;
  void corrupt(Message& message);

  FaultPlan plan_;
  std::mt19937_64 chooser_;
  uint64_t seen_ = 0;
  uint64_t made_ = 0;
  std::vector<std::pair<int, int>> holes_;  // pairs of which nothing comes any more
};

}  // namespace onrt::cc
