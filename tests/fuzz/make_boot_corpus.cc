// SPDX-License-Identifier: Apache-2.0
// Writes conversations of ranks as seeds for boot_fuzz:
//   make_boot_corpus FOLDER
#include <cstdio>
#include <fstream>
#include <string>

#include "collectives/boot/exchange.h"
#include "collectives/boot/frame.h"
#include "collectives/boot/handshake.h"
#include "collectives/boot/messages.h"
#include "collectives/boot/wire.h"

namespace onrt::cc {
namespace {

void write(const std::string& folder, const std::string& name, const ByteVector& bytes) {
  std::ofstream out(folder + "/" + name, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

class Script {
 public:
  Script() { out_.raw(bytes_of("s")); }
  Script& add(FrameType type, const ByteVector& payload) {
    out_.number(static_cast<uint8_t>(static_cast<int>(type) - 1));
    out_.number(static_cast<uint8_t>(payload.size()));
    out_.raw(payload);
    return *this;
  }
  ByteVector take() { return out_.take(); }

 private:
  WireWriter out_;
};

JoinMessage join(uint32_t rank, const std::string& value) {
  JoinMessage message;
  message.rank = rank;
  message.size = 20;
  message.pid = 99;
  message.port = 4711;
  message.address = "10.0.0.1";
  message.host_id = "h";
  message.host_name = "n";
  message.fingerprint = {{"A", value}, {"B", ""}};
  return message;
}

ContributeMessage part(uint32_t rank, ExchangeKind kind, uint32_t number) {
  ContributeMessage message;
  message.id.number = number;
  message.kind = kind;
  message.rank = rank;
  return message;
}

Cause cause() {
  Cause out;
  out.rank = 3;
  out.reporter = 0;
  out.text = "why";
  return out;
}

void write_scripts(const std::string& folder) {
  Script joining;
  for (uint32_t rank = 19; rank > 0; --rank) {
    joining.add(FrameType::kJoin, join(rank, "1").encode());
  }
  write(folder, "joining", joining.take());
  write(folder, "misfits",
        Script()
            .add(FrameType::kJoin, join(3, "2").encode())
            .add(FrameType::kJoin, join(3, "1").encode())
            .add(FrameType::kJoin, join(3, "1").encode())
            .add(FrameType::kJoin, join(30, "1").encode())
            .take());
  Script barrier;
  for (uint32_t rank = 0; rank < 20; ++rank) {
    barrier.add(FrameType::kContribute, part(rank, ExchangeKind::kBarrier, 0).encode());
  }
  write(folder, "barrier", barrier.take());
  Script group;
  const ByteVector members = member_bits({1, 2}, 20);
  for (uint32_t rank = 1; rank < 3; ++rank) {
    ContributeMessage half = part(rank, ExchangeKind::kAllGather, 0);
    half.id.group = 7;
    half.members = members;
    half.total = 4;
    half.bytes = ByteVector(2);
    group.add(FrameType::kContribute, half.encode());
    half.offset = 2;
    half.members.clear();
    group.add(FrameType::kContribute, half.encode());
  }
  write(folder, "group", group.take());
  AskMessage ask;
  ResultMessage result;
  result.bytes = pack_payloads(std::vector<ByteVector>(20));
  result.total = static_cast<uint32_t>(result.bytes.size());
  write(folder, "others",
        Script()
            .add(FrameType::kContribute, part(2, ExchangeKind::kBroadcast, 0).encode())
            .add(FrameType::kAsk, ask.encode())
            .add(FrameType::kLeave, encode_leave(3))
            .add(FrameType::kAbort, encode_cause(cause()))
            .add(FrameType::kResult, result.encode())
            .add(FrameType::kWelcome, WelcomeMessage().encode())
            .add(FrameType::kLink, LinkMessage().encode())
            .add(FrameType::kPing, {})
            .add(FrameType::kHello, {})
            .take());
}

void write_handshakes(const std::string& folder) {
  KeyRing keys;
  keys.local.emplace(bytes_of("not the secret of boot_fuzz"));
  Nonce theirs{};
  theirs.fill(std::byte{1});
  for (const KeyKind kind : {KeyKind::kLocal, KeyKind::kPublic}) {
    Handshake client = Handshake::client(keys, kind, theirs);
    KeyPolicy policy;
    policy.allow_public = true;
    Handshake server = Handshake::server(keys, policy, Nonce{});
    FrameReader to_server;
    ByteVector said = client.start();
    to_server.feed(said);
    const ByteVector challenge = *server.receive(**to_server.next());
    FrameReader to_client;
    to_client.feed(challenge);
    const ByteVector proof = *client.receive(**to_client.next());
    said.insert(said.end(), proof.begin(), proof.end());
    said.insert(said.begin(), std::byte{'h'});
    write(folder, kind == KeyKind::kLocal ? "client_local" : "client_public", said);
  }
  FrameSealer server;
  ByteVector answers = server.seal(FrameType::kChallenge, theirs);
  const ByteVector accepted = server.seal(FrameType::kAccepted, theirs);
  answers.insert(answers.end(), accepted.begin(), accepted.end());
  answers.insert(answers.begin(), std::byte{'c'});
  write(folder, "server", answers);
  ByteVector refused = FrameSealer().seal(FrameType::kRefused, bytes_of("why"));
  refused.insert(refused.begin(), std::byte{'c'});
  write(folder, "refused", refused);
}

}  // namespace
}  // namespace onrt::cc

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_boot_corpus FOLDER\n");
    return 2;
  }
  onrt::cc::write_scripts(argv[1]);
  onrt::cc::write_handshakes(argv[1]);
  return 0;
}
