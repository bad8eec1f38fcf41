// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/exchange.h"

#include <algorithm>
#include <cstring>

#include "collectives/boot/wire.h"
#include "runtime/base/digest.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

Cause mismatch(uint32_t rank, std::string text) {
  Cause cause;
  cause.kind = CauseKind::kMismatch;
  cause.code = NRT_INVALID;
  cause.rank = static_cast<int>(rank);
  cause.reporter = 0;
  cause.text = std::move(text);
  return cause;
}

std::string call_text(ExchangeKind kind, uint32_t source) {
  return kind == ExchangeKind::kBroadcast ? format("broadcast from rank {}", source)
                                          : std::string(name_of(kind));
}

}  // namespace

ByteVector member_bits(const std::vector<int>& ranks, uint32_t size) {
  if (ranks.empty() || ranks.size() == size) {
    return {};
  }
  ByteVector bits((size + 7) / 8);
  for (const int rank : ranks) {
    bits[static_cast<size_t>(rank) / 8] |= std::byte{1} << (rank % 8);
  }
  return bits;
}

std::vector<uint32_t> members_of(const ByteVector& bits, uint32_t size) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < size; ++rank) {
    const bool in = bits.empty() || (rank / 8 < bits.size() &&
                                     (bits[rank / 8] >> (rank % 8) & std::byte{1}) != std::byte{0});
    if (in) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

uint64_t group_key(const ByteVector& bits, uint64_t id) {
  if (bits.empty() && id == 0) {
    return 0;
  }
  WireWriter text;
  text.number(id);
  text.raw(bits);
  const auto digest = sha256(text.take());
  uint64_t key = 0;
  std::memcpy(&key, digest.data(), sizeof(key));
  return key | 1;  // never that of all ranks
}

std::optional<Cause> ExchangeTable::compare(const Exchange& exchange,
                                            const ContributeMessage& part) const {
  if (part.kind != exchange.kind || part.source != exchange.source) {
    return mismatch(
        part.rank, format("the ranks' calls differ: rank {} is in a {}, rank {} in a {} (number "
                          "{} of the group)",
                          exchange.first_rank, call_text(exchange.kind, exchange.source), part.rank,
                          call_text(part.kind, part.source), part.id.number));
  }
  const bool member = std::binary_search(exchange.ranks.begin(), exchange.ranks.end(), part.rank);
  if (!member || (part.offset == 0 && part.members != exchange.members)) {
    return mismatch(part.rank, format("rank {} is in a {} of another group than rank {}", part.rank,
                                      name_of(part.kind), exchange.first_rank));
  }
  const auto received = exchange.payloads.find(part.rank);
  const size_t expected = received == exchange.payloads.end() ? 0 : received->second.size();
  if (part.offset != expected || exchange.done.contains(part.rank)) {
    return mismatch(part.rank, format("rank {} contributes to a {} out of order", part.rank,
                                      name_of(part.kind)));
  }
  return std::nullopt;
}

std::optional<Cause> ExchangeTable::compare_left(const Exchange& exchange,
                                                 uint32_t reporter) const {
  for (const uint32_t rank : exchange.ranks) {
    if (left_.contains(rank) && !exchange.done.contains(rank)) {
      return mismatch(rank, format("rank {} is in a {}, but rank {} has left the job", reporter,
                                   call_text(exchange.kind, exchange.source), rank));
    }
  }
  return std::nullopt;
}

ExchangeTable::Outcome ExchangeTable::add(const ContributeMessage& part) {
  Outcome outcome;
  if (part.rank >= size_ || is_over(part.id)) {
    outcome.problem = mismatch(part.rank, format("rank {} contributes to a {} that is over",
                                                 part.rank, name_of(part.kind)));
    return outcome;
  }
  const auto [at, is_new] = open_.try_emplace(part.id);
  Exchange& exchange = at->second;
  if (is_new) {
    exchange.kind = part.kind;
    exchange.source = part.source;
    exchange.first_rank = part.rank;
    exchange.members = part.members;
    exchange.ranks = members_of(part.members, size_);
  }
  outcome.problem = compare(exchange, part);
  if (!outcome.problem) {
    outcome.problem = compare_left(exchange, part.rank);
  }
  if (outcome.problem) {
    return outcome;
  }
  ByteVector& payload = exchange.payloads[part.rank];
  payload.insert(payload.end(), part.bytes.begin(), part.bytes.end());
  if (payload.size() == part.total) {
    exchange.done.insert(part.rank);
  }
  if (exchange.done.size() == exchange.ranks.size()) {
    outcome.result = take_result(part.id, exchange);
  }
  return outcome;
}

std::optional<ByteVector> ExchangeTable::take_result(const ExchangeId& id, Exchange& exchange) {
  ByteVector result;
  if (exchange.kind == ExchangeKind::kBroadcast) {
    result = std::move(exchange.payloads[exchange.source]);
  } else if (exchange.kind != ExchangeKind::kBarrier) {
    std::vector<ByteVector> payloads;
    payloads.reserve(exchange.ranks.size());
    for (const uint32_t rank : exchange.ranks) {
      payloads.push_back(std::move(exchange.payloads[rank]));
    }
    result = pack_payloads(payloads);
  }
  open_.erase(id);
  finished_[id.group] = id.number + 1;
  return result;
}

std::optional<Cause> ExchangeTable::leave(uint32_t rank) {
  left_.insert(rank);
  for (const auto& [id, exchange] : open_) {
    if (auto cause = compare_left(exchange, exchange.first_rank)) {
      return cause;
    }
  }
  return std::nullopt;
}

bool ExchangeTable::is_over(const ExchangeId& id) const {
  const auto finished = finished_.find(id.group);
  return finished != finished_.end() && id.number < finished->second;
}

std::optional<std::vector<uint32_t>> ExchangeTable::missing(const ExchangeId& id) const {
  const auto at = open_.find(id);
  if (at == open_.end()) {
    return std::nullopt;
  }
  std::vector<uint32_t> ranks;
  for (const uint32_t rank : at->second.ranks) {
    if (!at->second.done.contains(rank)) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace onrt::cc
