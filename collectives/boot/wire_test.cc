// SPDX-License-Identifier: Apache-2.0
// Codes, frames, handshake and messages, without sockets.
#include "collectives/boot/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "collectives/boot/frame.h"
#include "collectives/boot/handshake.h"
#include "collectives/boot/hmac.h"
#include "collectives/boot/messages.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

using ::testing::HasSubstr;

std::string hex(const Mac& mac) {
  return to_hex({reinterpret_cast<const uint8_t*>(mac.data()), mac.size()});
}

struct Vector {
  std::string key;
  std::string data;
  const char* mac;
};

// RFC 4231, section 4 (case 5 tests truncation, which isn't used here).
TEST(Hmac, AgreesWithRfc4231) {
  std::string counting;
  for (char c = 1; c <= 25; ++c) {
    counting += c;
  }
  const Vector vectors[] = {
      {std::string(20, '\x0b'), "Hi There",
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"Jefe", "what do ya want for nothing?",
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {std::string(20, '\xaa'), std::string(50, '\xdd'),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {counting, std::string(50, '\xcd'),
       "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {std::string(131, '\xaa'),
       "This is a test using a larger than block-size key and a larger than block-size data. The "
       "key needs to be hashed before being used by the HMAC algorithm.",
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
  };
  for (const Vector& vector : vectors) {
    const HmacKey key(bytes_of(vector.key));
    EXPECT_EQ(hex(key.mac({bytes_of(vector.data)})), vector.mac);
    const std::string_view data = vector.data;
    EXPECT_EQ(hex(key.mac({bytes_of(data.substr(0, 3)), bytes_of(data.substr(3))})), vector.mac);
  }
}

TEST(Hmac, ComparesWholeCodes) {
  EXPECT_TRUE(equal_in_constant_time(bytes_of("abc"), bytes_of("abc")));
  EXPECT_FALSE(equal_in_constant_time(bytes_of("abc"), bytes_of("abd")));
  EXPECT_FALSE(equal_in_constant_time(bytes_of("abc"), bytes_of("ab")));
}

// ---- frames ----

const HmacKey kKey(bytes_of("a key of the tests"));

Result<std::optional<Frame>> read_all(FrameReader& reader, std::span<const std::byte> bytes) {
  reader.feed(bytes);
  return reader.next();
}

TEST(Frames, ArriveByteByByte) {
  FrameSealer sealer(kKey);
  FrameReader reader;
  reader.use_key(kKey);
  auto stream = sealer.seal(FrameType::kContribute, bytes_of("first"));
  const auto second = sealer.seal(FrameType::kPing, {});
  stream.insert(stream.end(), second.begin(), second.end());
  std::vector<Frame> frames;
  for (const std::byte byte : stream) {
    auto frame = read_all(reader, {&byte, 1});
    ASSERT_TRUE(frame.ok()) << frame.status().message();
    if (*frame) {
      frames.push_back(std::move(**frame));
    }
  }
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].payload.size(), 5U);
  EXPECT_EQ(frames[1].type, FrameType::kPing);
  EXPECT_EQ(frames[1].sequence, 1U);
}

TEST(Frames, AnyFlippedBitIsRefused) {
  const auto good = FrameSealer(kKey).seal(FrameType::kAbort, bytes_of("text"));
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    FrameReader reader;
    reader.use_key(kKey);
    const auto frame = read_all(reader, bad);
    // A longer length only waits for more.
    EXPECT_TRUE(!frame.ok() || !*frame) << bit;
  }
}

TEST(Frames, ReplayedReorderedAndForeignOnesAreRefused) {
  FrameSealer sealer(kKey);
  const auto first = sealer.seal(FrameType::kPing, {});
  const auto second = sealer.seal(FrameType::kPing, {});
  FrameReader twice;
  twice.use_key(kKey);
  ASSERT_TRUE(read_all(twice, first).ok());
  EXPECT_THAT(std::string(read_all(twice, first).status().message()),
              HasSubstr("expected number 1, found 0"));
  FrameReader skipped;
  skipped.use_key(kKey);
  EXPECT_FALSE(read_all(skipped, second).ok());
  FrameReader other;
  other.use_key(HmacKey(bytes_of("another key")));
  EXPECT_THAT(std::string(read_all(other, first).status().message()),
              HasSubstr("authentication code"));
}

struct BadHeader {
  size_t offset;
  uint8_t value;
  const char* expected;
};

TEST(Frames, HeadersAreCheckedBeforeThePayloadIsAwaited) {
  const BadHeader rows[] = {
      {0, 9, "expected version 1, found 9"},
      {1, 0, "unknown type 0"},
      {1, 200, "unknown type 200"},
      {1, static_cast<uint8_t>(FrameType::kHello), "after the handshake"},
      {6, 2, "at most 65536 bytes"},  // third byte of the length
  };
  for (const BadHeader& row : rows) {
    auto frame = FrameSealer(kKey).seal(FrameType::kPing, {});
    frame[row.offset] = std::byte{row.value};
    FrameReader reader;
    reader.use_key(kKey);
    const auto read = read_all(reader, std::span(frame).first(kFrameHeaderBytes));
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(row.expected));
  }
  FrameReader early;
  EXPECT_THAT(
      std::string(read_all(early, FrameSealer().seal(FrameType::kPing, {})).status().message()),
      HasSubstr("within the handshake"));
  const std::vector<std::byte> large(kLargestHandshakePayload + 1);
  EXPECT_FALSE(read_all(early, FrameSealer().seal(FrameType::kHello, large)).ok());
}

// ---- handshake ----

Nonce nonce_of(int value) {
  Nonce nonce{};
  nonce.fill(static_cast<std::byte>(value));
  return nonce;
}

KeyRing ring(std::string_view local, std::string_view given = "") {
  KeyRing keys;
  if (!local.empty()) {
    keys.local.emplace(bytes_of(local));
  }
  if (!given.empty()) {
    keys.given.emplace(bytes_of(given));
  }
  return keys;
}

Frame open(std::span<const std::byte> bytes) {
  FrameReader reader;
  // The frames of a side are numbered; here each is opened alone.
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  std::fill(copy.begin() + 8, copy.begin() + 16, std::byte{0});
  reader.feed(copy);
  auto frame = reader.next();
  return frame.ok() && *frame ? std::move(**frame) : Frame();
}

// "" when both are satisfied; else what the first one that isn't says.
std::string shake(Handshake& client, Handshake& server) {
  std::vector<std::byte> message = client.start();
  bool to_server = true;
  while (!message.empty()) {
    auto answer = (to_server ? server : client).receive(open(message));
    if (!answer.ok()) {
      return std::string(answer.status().message());
    }
    message = std::move(*answer);
    to_server = !to_server;
  }
  return client.done() && server.done() ? "" : "not done";
}

TEST(HandshakeOfRanks, GivesBothSidesTheSameKeysForEachDirection) {
  const KeyRing a = ring("secret");
  const KeyRing b = ring("secret");
  Handshake client = Handshake::client(a, KeyKind::kLocal, nonce_of(1));
  Handshake server = Handshake::server(b, {}, nonce_of(2));
  ASSERT_EQ(shake(client, server), "");
  const auto text = bytes_of("x");
  EXPECT_EQ(client.send_key().mac({text}), server.receive_key().mac({text}));
  EXPECT_EQ(client.receive_key().mac({text}), server.send_key().mac({text}));
  EXPECT_NE(client.send_key().mac({text}), client.receive_key().mac({text}));
}

TEST(HandshakeOfRanks, EveryConnectionHasKeysOfItsOwn) {
  const KeyRing keys = ring("secret");
  Handshake client = Handshake::client(keys, KeyKind::kLocal, nonce_of(1));
  Handshake server = Handshake::server(keys, {}, nonce_of(2));
  Handshake client_again = Handshake::client(keys, KeyKind::kLocal, nonce_of(3));
  Handshake server_again = Handshake::server(keys, {}, nonce_of(2));
  ASSERT_EQ(shake(client, server), "");
  ASSERT_EQ(shake(client_again, server_again), "");
  EXPECT_NE(client.send_key().mac({}), client_again.send_key().mac({}));
}

TEST(HandshakeOfRanks, AnotherSecretIsRefused) {
  const KeyRing a = ring("secret");
  const KeyRing b = ring("other");
  Handshake client = Handshake::client(a, KeyKind::kLocal, nonce_of(1));
  Handshake server = Handshake::server(b, {}, nonce_of(2));
  EXPECT_THAT(shake(client, server), HasSubstr("differs from ours"));
  EXPECT_FALSE(server.done());
}

TEST(HandshakeOfRanks, WithAGivenSecretNothingElseWillDo) {
  const KeyRing server_keys = ring("secret", "given");
  const KeyRing client_keys = ring("secret");
  KeyPolicy policy;
  policy.allow_public = true;
  for (const KeyKind kind : {KeyKind::kLocal, KeyKind::kPublic}) {
    Handshake client = Handshake::client(client_keys, kind, nonce_of(1));
    Handshake server = Handshake::server(server_keys, policy, nonce_of(2));
    EXPECT_THAT(shake(client, server), HasSubstr("NRT_COMM_SECRET_FILE"));
  }
}

TEST(HandshakeOfRanks, NoSecretIsRefusedOnTheSameHostOnly) {
  const KeyRing keys = ring("secret");
  KeyPolicy other_host;
  other_host.allow_public = true;
  for (const bool allowed : {false, true}) {
    Handshake client = Handshake::client(keys, KeyKind::kPublic, nonce_of(1));
    Handshake server = Handshake::server(keys, allowed ? other_host : KeyPolicy(), nonce_of(2));
    EXPECT_EQ(shake(client, server).empty(), allowed);
  }
}

TEST(HandshakeOfRanks, WhatIsSentBackProvesNothing) {
  const KeyRing keys = ring("secret");
  Handshake server = Handshake::server(keys, {}, nonce_of(2));
  Handshake client = Handshake::client(keys, KeyKind::kLocal, nonce_of(1));
  const auto challenge = server.receive(open(client.start()));
  ASSERT_TRUE(challenge.ok());
  const auto proof = client.receive(open(*challenge));
  ASSERT_TRUE(proof.ok());
  // The client's own proof, labelled as the server's.
  Frame reflected = open(*proof);
  reflected.type = FrameType::kAccepted;
  EXPECT_THAT(std::string(client.receive(reflected).status().message()),
              HasSubstr("does not know"));
  // Our own nonce as the peer's.
  Handshake other = Handshake::client(keys, KeyKind::kLocal, nonce_of(1));
  (void)other.start();
  Frame own_nonce = open(*challenge);
  own_nonce.payload.assign(32, std::byte{1});
  EXPECT_FALSE(other.receive(own_nonce).ok());
}

TEST(HandshakeOfRanks, ARecordedConversationIsRefused) {
  const KeyRing keys = ring("secret");
  Handshake client = Handshake::client(keys, KeyKind::kLocal, nonce_of(1));
  Handshake server = Handshake::server(keys, {}, nonce_of(2));
  const auto hello = client.start();
  const auto challenge = server.receive(open(hello));
  const auto proof = client.receive(open(*challenge));
  ASSERT_TRUE(server.receive(open(*proof)).ok());
  Handshake next = Handshake::server(keys, {}, nonce_of(3));
  ASSERT_TRUE(next.receive(open(hello)).ok());
  EXPECT_FALSE(next.receive(open(*proof)).ok());
  EXPECT_FALSE(next.receive(open(*proof)).ok()) << "a failed handshake stays failed";
}

TEST(HandshakeOfRanks, FramesOutOfTurnAreRefused) {
  const KeyRing keys = ring("secret");
  for (const FrameType type :
       {FrameType::kChallenge, FrameType::kProof, FrameType::kAccepted, FrameType::kRefused}) {
    Handshake server = Handshake::server(keys, {}, nonce_of(2));
    Frame frame;
    frame.type = type;
    EXPECT_FALSE(server.receive(frame).ok());
  }
}

// ---- messages ----

TEST(BootMessages, SurviveTheWay) {
  JoinMessage join;
  join.rank = 3;
  join.size = 8;
  join.pid = 77;
  join.port = 4711;
  join.address = "10.0.0.1";
  join.host_id = "host";
  join.host_name = "name";
  join.fingerprint = {{"a", "1"}, {"b", ""}};
  const auto read = JoinMessage::parse(join.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->fingerprint, join.fingerprint);
  EXPECT_EQ(read->address, "10.0.0.1");
  ContributeMessage part;
  part.id = {5, 6};
  part.kind = ExchangeKind::kAllGather;
  part.rank = 2;
  part.total = 10;
  part.offset = 8;
  part.bytes = {std::byte{1}, std::byte{2}};
  const auto contribution = ContributeMessage::parse(part.encode());
  ASSERT_TRUE(contribution);
  EXPECT_EQ(contribution->id, part.id);
  EXPECT_EQ(contribution->bytes, part.bytes);
  Cause cause;
  cause.kind = CauseKind::kPeerDied;
  cause.code = NRT_TIMEOUT;
  cause.rank = -1;
  cause.reporter = 4;
  cause.text = "why";
  const auto told = parse_cause(encode_cause(cause));
  ASSERT_TRUE(told);
  EXPECT_EQ(told->rank, -1);
  EXPECT_EQ(told->reporter, 4);
  EXPECT_EQ(told->code, NRT_TIMEOUT);
}

TEST(BootMessages, TruncatedAndPaddedOnesAreRefused) {
  JoinMessage join;
  join.fingerprint = {{"name", "value"}};
  auto bytes = join.encode();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(JoinMessage::parse(std::span(bytes).first(size))) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(JoinMessage::parse(bytes));
}

TEST(BootMessages, NumbersOutOfRangeAreRefused) {
  ContributeMessage part;
  part.kind = ExchangeKind::kAllGather;
  part.total = kMostExchange + 1;
  EXPECT_FALSE(ContributeMessage::parse(part.encode()));
  part.total = 1;
  part.offset = 1;
  part.bytes.resize(1);
  EXPECT_FALSE(ContributeMessage::parse(part.encode()));
  part.offset = 0;
  part.rank = kMostBootRanks;
  EXPECT_FALSE(ContributeMessage::parse(part.encode()));
  Cause success;
  success.code = NRT_SUCCESS;
  EXPECT_FALSE(parse_cause(encode_cause(success)));
}

TEST(BootMessages, PayloadsOfAGroupAreCounted) {
  const std::vector<ByteVector> payloads = {ByteVector(3), ByteVector(), ByteVector(5)};
  const auto packed = pack_payloads(payloads);
  EXPECT_EQ(unpack_payloads(packed, 3), payloads);
  EXPECT_FALSE(unpack_payloads(packed, 2));
  EXPECT_FALSE(unpack_payloads(packed, 4));
}

}  // namespace
}  // namespace onrt::cc
