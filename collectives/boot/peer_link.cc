// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/peer_link.h"

namespace onrt::cc {

PeerLinkPtr PeerLink::client(ConnectionPtr connection, const KeyRing& keys, KeyKind kind,
                             const Nonce& nonce) {
  PeerLinkPtr link(new PeerLink(std::move(connection), Handshake::client(keys, kind, nonce)));
  link->is_client_ = true;
  return link;
}

PeerLinkPtr PeerLink::server(ConnectionPtr connection, const KeyRing& keys, const KeyPolicy& policy,
                             const Nonce& nonce) {
  return PeerLinkPtr(new PeerLink(std::move(connection), Handshake::server(keys, policy, nonce)));
}

void PeerLink::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  const std::weak_ptr<PeerLink> self = weak_from_this();
  connection_->start({[self](std::span<const std::byte> bytes) {
                        if (const PeerLinkPtr link = self.lock()) {
                          link->on_bytes(bytes);
                        }
                      },
                      [self](const std::string& why) {
                        if (const PeerLinkPtr link = self.lock()) {
                          link->trouble(Trouble::kClosed, why);
                        }
                      }});
  if (is_client_) {
    connection_->send(handshake_.start());
  }
}

void PeerLink::send(FrameType type, std::span<const std::byte> payload) {
  if (!closed_ && ready()) {
    last_sent_ = Clock::now();
    connection_->send(sealer_.seal(type, payload));
  }
}

void PeerLink::close() {
  closed_ = true;
  handlers_ = {};
  connection_->close();
}

void PeerLink::close_after_sending() {
  closed_ = true;
  handlers_ = {};
  connection_->close_after_sending();
}

void PeerLink::on_bytes(std::span<const std::byte> bytes) {
  last_received_ = Clock::now();
  suspected = false;
  reader_.feed(bytes);
  while (!closed_) {
    auto frame = reader_.next();
    if (!frame.ok()) {
      trouble(Trouble::kRefused, std::string(frame.status().message()));
      return;
    }
    if (!*frame) {
      return;
    }
    if (!ready()) {
      on_handshake_frame(**frame);
    } else {
      const auto on_frame = handlers_.on_frame;
      on_frame(**frame);
    }
  }
}

void PeerLink::on_handshake_frame(const Frame& frame) {
  auto answer = handshake_.receive(frame);
  if (!answer.ok()) {
    const std::string why(answer.status().message());
    if (!is_client_) {
      connection_->send(handshake_.refusal(why));
    }
    trouble(Trouble::kRefused, why);
    return;
  }
  if (!(*answer).empty()) {
    connection_->send(std::move(*answer));
  }
  if (ready()) {
    sealer_ = FrameSealer(handshake_.send_key());
    reader_.use_key(handshake_.receive_key());
    const auto on_ready = handlers_.on_ready;
    on_ready();
  }
}

void PeerLink::trouble(Trouble trouble, const std::string& why) {
  if (closed_) {
    return;
  }
  const auto on_trouble = handlers_.on_trouble;
  close_after_sending();
  if (on_trouble) {
    on_trouble(trouble, why);
  }
}

}  // namespace onrt::cc
