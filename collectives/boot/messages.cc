// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/messages.h"

#include "collectives/boot/wire.h"

namespace onrt::cc {
namespace {

// What an NRT_STATUS can hold: all its values have 11 bits.
constexpr uint32_t kLargestStatus = 2047;
constexpr size_t kLongestAddress = 64;
constexpr size_t kLongestHostId = 200;
constexpr size_t kLongestHostName = 255;
constexpr size_t kMostFingerprint = 256;
constexpr size_t kLongestFingerprintText = 4096;
// Every payload of every rank of the largest job, with its length.
constexpr uint64_t kMostResult = uint64_t{256} << 20;

ByteVector copy_of(ByteSpan bytes) { return {bytes.begin(), bytes.end()}; }

void put(WireWriter& out, const ExchangeId& id) {
  out.number(id.group);
  out.number(id.number);
}

ExchangeId read_id(WireReader& in) {
  ExchangeId id;
  id.group = in.number<uint64_t>();
  id.number = in.number<uint32_t>();
  return id;
}

bool is_rank(uint32_t rank) { return rank < static_cast<uint32_t>(kMostBootRanks); }

std::optional<ExchangeKind> exchange_kind(uint8_t value) {
  if (value < static_cast<uint8_t>(ExchangeKind::kJoinDone) ||
      value > static_cast<uint8_t>(ExchangeKind::kDescriptors)) {
    return std::nullopt;
  }
  return static_cast<ExchangeKind>(value);
}

}  // namespace

std::string_view name_of(ExchangeKind kind) {
  switch (kind) {
    case ExchangeKind::kJoinDone:
      return "joining";
    case ExchangeKind::kAllGather:
      return "all_gather";
    case ExchangeKind::kBroadcast:
      return "broadcast";
    case ExchangeKind::kBarrier:
      return "barrier";
    case ExchangeKind::kDescriptors:
      break;
  }
  return "exchange of descriptors";
}

ByteVector JoinMessage::encode() const {
  WireWriter out;
  out.number(rank);
  out.number(size);
  out.number(pid);
  out.number(port);
  out.text(address);
  out.text(host_id);
  out.text(host_name);
  out.number(static_cast<uint32_t>(fingerprint.size()));
  for (const FingerprintEntry& entry : fingerprint) {
    out.text(entry.name);
    out.text(entry.value);
  }
  return out.take();
}

std::optional<JoinMessage> JoinMessage::parse(ByteSpan bytes) {
  WireReader in(bytes);
  JoinMessage message;
  message.rank = in.number<uint32_t>();
  message.size = in.number<uint32_t>();
  message.pid = in.number<uint32_t>();
  message.port = in.number<uint16_t>();
  message.address = in.text(kLongestAddress);
  message.host_id = in.text(kLongestHostId);
  message.host_name = in.text(kLongestHostName);
  const auto entries = in.number<uint32_t>();
  if (entries > kMostFingerprint) {
    return std::nullopt;
  }
  for (uint32_t i = 0; i < entries && !in.bad(); ++i) {
    FingerprintEntry entry;
    entry.name = in.text(kLongestFingerprintText);
    entry.value = in.text(kLongestFingerprintText);
    message.fingerprint.push_back(std::move(entry));
  }
  return in.complete() ? std::optional(std::move(message)) : std::nullopt;
}

ByteVector WelcomeMessage::encode() const {
  WireWriter out;
  out.number(job);
  out.number(place);
  out.number(parent_rank);
  out.number(parent_port);
  out.number(parent_is_local);
  out.number(parent_pid);
  out.text(parent_address);
  out.number(leader_rank);
  return out.take();
}

std::optional<WelcomeMessage> WelcomeMessage::parse(ByteSpan bytes) {
  WireReader in(bytes);
  WelcomeMessage message;
  message.job = in.number<uint64_t>();
  message.place = in.number<uint32_t>();
  message.parent_rank = in.number<uint32_t>();
  message.parent_port = in.number<uint16_t>();
  message.parent_is_local = in.number<uint8_t>();
  message.parent_pid = in.number<uint32_t>();
  message.parent_address = in.text(kLongestAddress);
  message.leader_rank = in.number<uint32_t>();
  const bool good = in.complete() && is_rank(message.place) && is_rank(message.parent_rank) &&
                    is_rank(message.leader_rank);
  return good ? std::optional(std::move(message)) : std::nullopt;
}

ByteVector LinkMessage::encode() const {
  WireWriter out;
  out.number(job);
  out.number(rank);
  out.number(pid);
  out.text(host_id);
  return out.take();
}

std::optional<LinkMessage> LinkMessage::parse(ByteSpan bytes) {
  WireReader in(bytes);
  LinkMessage message;
  message.job = in.number<uint64_t>();
  message.rank = in.number<uint32_t>();
  message.pid = in.number<uint32_t>();
  message.host_id = in.text(kLongestHostId);
  const bool good = in.complete() && is_rank(message.rank);
  return good ? std::optional(std::move(message)) : std::nullopt;
}

ByteVector ContributeMessage::encode() const {
  WireWriter out;
  put(out, id);
  out.number(static_cast<uint8_t>(kind));
  out.number(rank);
  out.number(source);
  out.number(total);
  out.number(offset);
  out.number(static_cast<uint32_t>(members.size()));
  out.raw(members);
  out.raw(bytes);
  return out.take();
}

std::optional<ContributeMessage> ContributeMessage::parse(ByteSpan bytes) {
  WireReader in(bytes);
  ContributeMessage message;
  message.id = read_id(in);
  const auto kind = exchange_kind(in.number<uint8_t>());
  message.rank = in.number<uint32_t>();
  message.source = in.number<uint32_t>();
  message.total = in.number<uint32_t>();
  message.offset = in.number<uint32_t>();
  const auto members = in.number<uint32_t>();
  if (members > kMostBootRanks / 8) {
    return std::nullopt;
  }
  message.members = copy_of(in.raw(members));
  message.bytes = copy_of(in.remainder());
  const bool good = in.complete() && kind && is_rank(message.rank) && is_rank(message.source) &&
                    message.total <= kMostExchange &&
                    uint64_t{message.offset} + message.bytes.size() <= message.total &&
                    (message.offset == 0 || message.members.empty());
  if (!good) {
    return std::nullopt;
  }
  message.kind = *kind;
  return message;
}

ByteVector ResultMessage::encode() const {
  WireWriter out;
  put(out, id);
  out.number(total);
  out.number(offset);
  out.raw(bytes);
  return out.take();
}

std::optional<ResultMessage> ResultMessage::parse(ByteSpan bytes) {
  WireReader in(bytes);
  ResultMessage message;
  message.id = read_id(in);
  message.total = in.number<uint32_t>();
  message.offset = in.number<uint32_t>();
  message.bytes = copy_of(in.remainder());
  const bool good = in.complete() && message.total <= kMostResult &&
                    uint64_t{message.offset} + message.bytes.size() <= message.total;
  return good ? std::optional(std::move(message)) : std::nullopt;
}

ByteVector AskMessage::encode() const {
  WireWriter out;
  put(out, id);
  out.number(static_cast<uint8_t>(kind));
  out.number(rank);
  out.number(waited_ms);
  return out.take();
}

std::optional<AskMessage> AskMessage::parse(ByteSpan bytes) {
  WireReader in(bytes);
  AskMessage message;
  message.id = read_id(in);
  const auto kind = exchange_kind(in.number<uint8_t>());
  message.rank = in.number<uint32_t>();
  message.waited_ms = in.number<uint32_t>();
  if (!in.complete() || !kind || !is_rank(message.rank)) {
    return std::nullopt;
  }
  message.kind = *kind;
  return message;
}

ByteVector encode_cause(const Cause& cause) {
  WireWriter out;
  out.number(static_cast<uint8_t>(cause.kind));
  out.number(static_cast<uint32_t>(cause.code));
  out.number(static_cast<uint32_t>(cause.rank + 1));
  out.number(static_cast<uint32_t>(cause.reporter + 1));
  out.text(std::string_view(cause.text).substr(0, kLongestCause));
  return out.take();
}

std::optional<Cause> parse_cause(ByteSpan bytes) {
  WireReader in(bytes);
  Cause cause;
  const auto kind = in.number<uint8_t>();
  const auto code = in.number<uint32_t>();
  const auto rank = in.number<uint32_t>();
  const auto reporter = in.number<uint32_t>();
  cause.text = in.text(kLongestCause);
  const bool good = in.complete() && kind >= static_cast<uint8_t>(CauseKind::kAborted) &&
                    kind <= static_cast<uint8_t>(CauseKind::kProtocol) && code != 0 &&
                    code <= kLargestStatus && rank <= kMostBootRanks && reporter <= kMostBootRanks;
  if (!good) {
    return std::nullopt;
  }
  cause.kind = static_cast<CauseKind>(kind);
  cause.code = static_cast<NRT_STATUS>(code);
  cause.rank = static_cast<int>(rank) - 1;
  cause.reporter = static_cast<int>(reporter) - 1;
  return cause;
}

ByteVector encode_leave(uint32_t rank) {
  WireWriter out;
  out.number(rank);
  return out.take();
}

std::optional<uint32_t> parse_leave(ByteSpan bytes) {
  WireReader in(bytes);
  const auto rank = in.number<uint32_t>();
  return in.complete() && is_rank(rank) ? std::optional(rank) : std::nullopt;
}

ByteVector pack_payloads(const std::vector<ByteVector>& payloads) {
  WireWriter out;
  for (const ByteVector& payload : payloads) {
    out.number(static_cast<uint32_t>(payload.size()));
    out.raw(payload);
  }
  return out.take();
}

std::optional<std::vector<ByteVector>> unpack_payloads(ByteSpan bytes, size_t count) {
  WireReader in(bytes);
  std::vector<ByteVector> payloads;
  for (size_t i = 0; i < count && !in.bad(); ++i) {
    const auto size = in.number<uint32_t>();
    payloads.push_back(copy_of(in.raw(size)));
  }
  return in.complete() && payloads.size() == count ? std::optional(std::move(payloads))
                                                   : std::nullopt;
}

}  // namespace onrt::cc
