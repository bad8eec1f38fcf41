// SPDX-License-Identifier: Apache-2.0
// Payloads of the frames that follow the handshake. parse() returns nothing for bytes that no rank
// sends: too short, too long, numbers out of range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/boot/cause.h"
#include "collectives/boot/fingerprint.h"

namespace onrt::cc {

inline constexpr int kMostBootRanks = 16384;
inline constexpr size_t kMostExchange = 1 << 20;  // payload of one rank
using ByteSpan = std::span<const std::byte>;
using ByteVector = std::vector<std::byte>;

// kJoin: a rank to the root.
struct JoinMessage {
  uint32_t rank = 0;
  uint32_t size = 0;
  uint32_t pid = 0;
  uint16_t port = 0;    // where it would take children, at `address`
  std::string address;  // numeric
  std::string host_id;  // equal: same host and same folder
  std::string host_name;
  std::vector<FingerprintEntry> fingerprint;
  ByteVector encode() const;
  static std::optional<JoinMessage> parse(ByteSpan bytes);
};

// kWelcome: its place in the tree.
struct WelcomeMessage {
  uint64_t job = 0;
  uint32_t place = 0;        // 0 is the root; children of p are 16 p + 1 ... 16 p + 16
  uint32_t parent_rank = 0;  // 0 and no address: this connection stays
  uint16_t parent_port = 0;
  uint8_t parent_is_local = 0;
  uint32_t parent_pid = 0;
  std::string parent_address;
  uint32_t leader_rank = 0;  // of the host: owns the shared page
  ByteVector encode() const;
  static std::optional<WelcomeMessage> parse(ByteSpan bytes);
};

// kLink: a rank to its parent.
struct LinkMessage {
  uint64_t job = 0;
  uint32_t rank = 0;
  uint32_t pid = 0;
  std::string host_id;
  ByteVector encode() const;
  static std::optional<LinkMessage> parse(ByteSpan bytes);
};

enum class ExchangeKind : uint8_t { kJoinDone = 1, kAllGather, kBroadcast, kBarrier, kDescriptors };
std::string_view name_of(ExchangeKind kind);

// Names an exchange: the group's key and how many the group had before.
struct ExchangeId {
  uint64_t group = 0;  // 0: all ranks
  uint32_t number = 0;
  auto operator<=>(const ExchangeId&) const = default;
};

// kContribute: part of what one rank gives.
struct ContributeMessage {
  ExchangeId id;
  ExchangeKind kind = ExchangeKind::kBarrier;
  uint32_t rank = 0;
  uint32_t source = 0;  // broadcast: whose payload counts
  uint32_t total = 0;   // bytes of the whole payload
  uint32_t offset = 0;
  ByteVector members;  // bit per rank; empty: all ranks. Only with offset 0
  ByteVector bytes;
  ByteVector encode() const;
  static std::optional<ContributeMessage> parse(ByteSpan bytes);
};

// kResult: part of what all get.
struct ResultMessage {
  ExchangeId id;
  uint32_t total = 0;
  uint32_t offset = 0;
  ByteVector bytes;
  ByteVector encode() const;
  static std::optional<ResultMessage> parse(ByteSpan bytes);
};

// kAsk: `rank` waited until its deadline.
struct AskMessage {
  ExchangeId id;
  ExchangeKind kind = ExchangeKind::kBarrier;
  uint32_t rank = 0;
  uint32_t waited_ms = 0;
  ByteVector encode() const;
  static std::optional<AskMessage> parse(ByteSpan bytes);
};

ByteVector encode_cause(const Cause& cause);
std::optional<Cause> parse_cause(ByteSpan bytes);

// kLeave.
ByteVector encode_leave(uint32_t rank);
std::optional<uint32_t> parse_leave(ByteSpan bytes);

// Payloads of a group's ranks as one result, and back. Nothing when `bytes` isn't `count` of them.
ByteVector pack_payloads(const std::vector<ByteVector>& payloads);
std::optional<std::vector<ByteVector>> unpack_payloads(ByteSpan bytes, size_t count);

}  // namespace onrt::cc
