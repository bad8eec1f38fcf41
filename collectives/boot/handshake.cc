// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/handshake.h"

#include <algorithm>

#include "collectives/boot/wire.h"
#include "runtime/base/format.h"
#include "runtime/base/log.h"

namespace onrt::cc {
namespace {

constexpr std::string_view kMagic = "OPENNRT-BOOT";
constexpr size_t kLongestReason = 400;

const HmacKey& public_key() {
  static const HmacKey kKey(bytes_of("opennrt bootstrap without a secret"));
  return kKey;
}

Nonce to_nonce(std::span<const std::byte> bytes) {
  Nonce nonce{};
  std::copy(bytes.begin(), bytes.end(), nonce.begin());
  return nonce;
}

}  // namespace

std::string_view name_of(KeyKind kind) {
  switch (kind) {
    case KeyKind::kLocal:
      return "the secret of this host's folder";
    case KeyKind::kGiven:
      return "the secret of NRT_COMM_SECRET_FILE";
    case KeyKind::kPublic:
      break;
  }
  return "no secret";
}

const HmacKey* KeyRing::find(KeyKind kind) const {
  switch (kind) {
    case KeyKind::kLocal:
      return local ? &*local : nullptr;
    case KeyKind::kGiven:
      return given ? &*given : nullptr;
    case KeyKind::kPublic:
      break;
  }
  return &public_key();
}

bool KeyPolicy::accepts(KeyKind kind, const KeyRing& keys) const {
  if (keys.given) {
    return kind == KeyKind::kGiven;
  }
  return (kind == KeyKind::kLocal && allow_local && keys.local) ||
         (kind == KeyKind::kPublic && allow_public);
}

Handshake Handshake::client(const KeyRing& keys, KeyKind kind, const Nonce& nonce) {
  Handshake handshake(keys, true, nonce);
  handshake.kind_ = kind;
  handshake.client_nonce_ = nonce;
  return handshake;
}

Handshake Handshake::server(const KeyRing& keys, const KeyPolicy& policy, const Nonce& nonce) {
  Handshake handshake(keys, false, nonce);
  handshake.policy_ = policy;
  handshake.server_nonce_ = nonce;
  return handshake;
}

std::vector<std::byte> Handshake::start() {
  state_ = State::kHelloSent;
  WireWriter out;
  out.raw(bytes_of(kMagic));
  out.number(static_cast<uint8_t>(kind_));
  out.raw(own_nonce_);
  return sealer_.seal(FrameType::kHello, out.take());
}

std::vector<std::byte> Handshake::refusal(std::string_view why) {
  return sealer_.seal(FrameType::kRefused, bytes_of(why.substr(0, kLongestReason)));
}

Result<std::vector<std::byte>> Handshake::receive(const Frame& frame) {
  auto answer = step(frame);
  if (!answer.ok()) {
    state_ = State::kFailed;
  }
  return answer;
}

Result<std::vector<std::byte>> Handshake::step(const Frame& frame) {
  if (is_client_ && frame.type == FrameType::kRefused) {
    const std::string why(reinterpret_cast<const char*>(frame.payload.data()),
                          std::min(frame.payload.size(), kLongestReason));
    return Status(NRT_INVALID, "refused: " + one_line(why));
  }
  if (!is_client_ && state_ == State::kStart && frame.type == FrameType::kHello) {
    return on_hello(frame);
  }
  if (is_client_ && state_ == State::kHelloSent && frame.type == FrameType::kChallenge) {
    return on_challenge(frame);
  }
  if (!is_client_ && state_ == State::kChallengeSent && frame.type == FrameType::kProof) {
    return on_proof(frame);
  }
  if (is_client_ && state_ == State::kProofSent && frame.type == FrameType::kAccepted) {
    return on_accepted(frame);
  }
  return Status(NRT_INVALID,
                format("handshake: frame of type {} out of turn", static_cast<int>(frame.type)));
}

Result<std::vector<std::byte>> Handshake::on_hello(const Frame& frame) {
  WireReader in(frame.payload);
  const auto magic = in.raw(kMagic.size());
  const auto kind = in.number<uint8_t>();
  const auto nonce = in.raw(client_nonce_.size());
  if (!in.complete() || !std::ranges::equal(magic, bytes_of(kMagic)) || kind == 0 ||
      kind > static_cast<uint8_t>(KeyKind::kPublic)) {
    return Status(NRT_INVALID, "handshake: not the hello of an OpenNRT rank");
  }
  kind_ = static_cast<KeyKind>(kind);
  client_nonce_ = to_nonce(nonce);
  if (client_nonce_ == server_nonce_) {
    return Status(NRT_INVALID, "handshake: our own nonce came back");
  }
  if (!policy_.accepts(kind_, keys_)) {
    return Status(NRT_INVALID,
                  format("authentication: this rank has {}, the peer uses {}",
                         keys_.given ? name_of(KeyKind::kGiven)
                                     : name_of(keys_.local ? KeyKind::kLocal : KeyKind::kPublic),
                         name_of(kind_)));
  }
  state_ = State::kChallengeSent;
  return sealer_.seal(FrameType::kChallenge, server_nonce_);
}

Result<std::vector<std::byte>> Handshake::on_challenge(const Frame& frame) {
  if (frame.payload.size() != server_nonce_.size()) {
    return Status(NRT_INVALID, "handshake: challenge of the wrong size");
  }
  server_nonce_ = to_nonce(frame.payload);
  if (server_nonce_ == client_nonce_) {
    return Status(NRT_INVALID, "handshake: our own nonce came back");
  }
  state_ = State::kProofSent;
  return sealer_.seal(FrameType::kProof, proof("client"));
}

Result<std::vector<std::byte>> Handshake::on_proof(const Frame& frame) {
  if (!equal_in_constant_time(frame.payload, proof("client"))) {
    return Status(NRT_INVALID, format("authentication: the peer's copy of {} differs from ours",
                                      name_of(kind_)));
  }
  state_ = State::kDone;
  return sealer_.seal(FrameType::kAccepted, proof("server"));
}

Result<std::vector<std::byte>> Handshake::on_accepted(const Frame& frame) {
  if (!equal_in_constant_time(frame.payload, proof("server"))) {
    return Status(NRT_INVALID,
                  format("authentication: the server does not know {}", name_of(kind_)));
  }
  state_ = State::kDone;
  return std::vector<std::byte>();
}

Mac Handshake::proof(std::string_view label) const {
  const std::byte kind{static_cast<uint8_t>(kind_)};
  return keys_.find(kind_)->mac(
      {bytes_of("opennrt proof "), bytes_of(label), {&kind, 1}, client_nonce_, server_nonce_});
}

HmacKey Handshake::direction_key(std::string_view label) const {
  return HmacKey(keys_.find(kind_)->mac(
      {bytes_of("opennrt key "), bytes_of(label), client_nonce_, server_nonce_}));
}

}  // namespace onrt::cc
