// SPDX-License-Identifier: Apache-2.0
// Both sides of a connection prove that they know the job's secret, without sending it.
//   client: hello {magic, key kind, nonce Nc}
//   server: challenge {nonce Ns}                        or refused {text}
//   client: proof HMAC(secret, "client", kind, Nc, Ns)
//   server: accepted HMAC(secret, "server", kind, Nc, Ns)
// Each direction then has a key of its own, derived from the secret and both nonces. Nothing that
// was recorded (other nonces) or sent back (other label, other key) is accepted. No I/O here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/boot/frame.h"
#include "collectives/boot/hmac.h"
#include "runtime/base/status.h"

namespace onrt::cc {

enum class KeyKind : uint8_t {
  kLocal = 1,  // random file in the folder of this host
  kGiven,      // NRT_COMM_SECRET_FILE or NRT_COMM_SECRET_FD
  kPublic,     // none: proves nothing, only keeps frames in order
};
std::string_view name_of(KeyKind kind);

// The secrets that a process knows.
struct KeyRing {
  std::optional<HmacKey> local;
  std::optional<HmacKey> given;
  const HmacKey* find(KeyKind kind) const;
};

// What a server accepts from one peer.
struct KeyPolicy {
  bool allow_local = true;
  bool allow_public = false;
  // With a given secret nothing else will do.
  bool accepts(KeyKind kind, const KeyRing& keys) const;
};

class Handshake {
 public:
  static Handshake client(const KeyRing& keys, KeyKind kind, const Nonce& nonce);
  static Handshake server(const KeyRing& keys, const KeyPolicy& policy, const Nonce& nonce);

  // Client: the first frame.
  std::vector<std::byte> start();
  // Takes a frame of the peer. The result is to be sent, if it isn't empty. NRT_INVALID: the peer
  // is refused; refusal() is then to be sent before closing (server), or the peer refused us
  // (client).
  Result<std::vector<std::byte>> receive(const Frame& frame);
  std::vector<std::byte> refusal(std::string_view why);

  bool done() const { return state_ == State::kDone; }
  KeyKind kind() const { return kind_; }
  // Once done: keys of what this side sends and receives.
  HmacKey send_key() const { return direction_key(is_client_ ? "client sends" : "server sends"); }
  HmacKey receive_key() const {
    return direction_key(is_client_ ? "server sends" : "client sends");
  }

 private:
  enum class State { kStart, kHelloSent, kChallengeSent, kProofSent, kDone, kFailed };
  Handshake(const KeyRing& keys, bool is_client, const Nonce& nonce)
      : keys_(keys), is_client_(is_client), own_nonce_(nonce) {}

  Result<std::vector<std::byte>> step(const Frame& frame);
  Result<std::vector<std::byte>> on_hello(const Frame& frame);
  Result<std::vector<std::byte>> on_challenge(const Frame& frame);
  Result<std::vector<std::byte>> on_proof(const Frame& frame);
  Result<std::vector<std::byte>> on_accepted(const Frame& frame);
  Mac proof(std::string_view label) const;
  HmacKey direction_key(std::string_view label) const;

  const KeyRing& keys_;  // Borrowed from the node; outlives the connection
  bool is_client_;
  Nonce own_nonce_;
  Nonce client_nonce_{};
  Nonce server_nonce_{};
  KeyPolicy policy_;
  KeyKind kind_ = KeyKind::kPublic;
  State state_ = State::kStart;
  FrameSealer sealer_;
};

}  // namespace onrt::cc
