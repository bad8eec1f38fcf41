// SPDX-License-Identifier: Apache-2.0
// A connection to another rank: handshake, then sealed frames. Owned by the control thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "collectives/boot/frame.h"
#include "collectives/boot/handshake.h"
#include "collectives/boot/reactor.h"

namespace onrt::cc {

class PeerLink : public std::enable_shared_from_this<PeerLink> {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Trouble {
    kClosed,
    kRefused
  };  // the connection ended; the peer is not what it should be
  struct Handlers {
    std::function<void()> on_ready;  // both sides have proved themselves
    std::function<void(const Frame&)> on_frame;
    std::function<void(Trouble, const std::string& why)> on_trouble;  // once, closed by then
  };
  static std::shared_ptr<PeerLink> client(ConnectionPtr connection, const KeyRing& keys,
                                          KeyKind kind, const Nonce& nonce);
  static std::shared_ptr<PeerLink> server(ConnectionPtr connection, const KeyRing& keys,
                                          const KeyPolicy& policy, const Nonce& nonce);
  void start(Handlers handlers);
  void send(FrameType type, std::span<const std::byte> payload);
  void close();  // silently
  void close_after_sending();

  bool ready() const { return handshake_.done(); }
  bool closed() const { return closed_; }
  KeyKind kind() const { return handshake_.kind(); }
  const Connection& connection() const { return *connection_; }
  Clock::time_point last_sent() const { return last_sent_; }
  Clock::time_point last_received() const { return last_received_; }
  // After this process was stopped itself, silence says nothing about the peer.
  void forgive_silence() { last_received_ = Clock::now(); }

  // Filled in by the owner once the peer has said who it is.
  int rank = -1;
  bool is_local = false;
  uint64_t watch = 0;  // of its process
  int pid = 0;
  bool suspected = false;

 private:
  PeerLink(ConnectionPtr connection, const Handshake& handshake)
      : connection_(std::move(connection)), handshake_(handshake) {}
  void on_bytes(std::span<const std::byte> bytes);
  void on_handshake_frame(const Frame& frame);
  void trouble(Trouble trouble, const std::string& why);

  ConnectionPtr connection_;
  Handshake handshake_;
  bool is_client_ = false;
  FrameReader reader_;
  FrameSealer sealer_;
  Handlers handlers_;
  bool closed_ = false;
  Clock::time_point last_sent_ = Clock::now();
  Clock::time_point last_received_ = Clock::now();
};
using PeerLinkPtr = std::shared_ptr<PeerLink>;

}  // namespace onrt::cc
