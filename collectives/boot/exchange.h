// SPDX-License-Identifier: Apache-2.0
// Exchanges as the root sees them: who has contributed what. No I/O. Owned by the control thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives/boot/cause.h"
#include "collectives/boot/messages.h"

namespace onrt::cc {

class ExchangeTable {
 public:
  explicit ExchangeTable(uint32_t size) : size_(size) {}

  struct Outcome {
    std::optional<Cause> problem;      // the ranks' calls differ, or one has left
    std::optional<ByteVector> result;  // complete: what all get
  };
  // Takes one part of one rank's contribution.
  Outcome add(const ContributeMessage& part);
  // Exchanges that wait for `rank`, which has left in order.
  std::optional<Cause> leave(uint32_t rank);

  // Ranks that have not contributed; nothing when there is no such exchange (it is over).
  std::optional<std::vector<uint32_t>> missing(const ExchangeId& id) const;
  bool is_over(const ExchangeId& id) const;

 private:
  struct Exchange {
    ExchangeKind kind = ExchangeKind::kBarrier;
    uint32_t source = 0;
    uint32_t first_rank = 0;  // whose call it is compared with
    ByteVector members;
    std::vector<uint32_t> ranks;
    std::map<uint32_t, ByteVector> payloads;  // received so far
    std::map<uint32_t, uint32_t> totals;
    std::set<uint32_t> done;
  };
  std::optional<Cause> compare(const Exchange& exchange, const ContributeMessage& part) const;
  std::optional<Cause> compare_left(const Exchange& exchange, uint32_t reporter) const;
  std::optional<ByteVector> take_result(const ExchangeId& id, Exchange& exchange);

  uint32_t size_;
  std::map<ExchangeId, Exchange> open_;
  std::map<uint64_t, uint32_t> finished_;  // group -> number of exchanges that are over
  std::set<uint32_t> left_;
};

// Bits of a group's ranks; empty for all.
ByteVector member_bits(const std::vector<int>& ranks, uint32_t size);
std::vector<uint32_t> members_of(const ByteVector& bits, uint32_t size);
// What a group is called on the wire: 0 for all ranks without an id.
uint64_t group_key(const ByteVector& bits, uint64_t id);

}  // namespace onrt::cc
