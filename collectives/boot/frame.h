// SPDX-License-Identifier: Apache-2.0
// Frames of the control plane: 16 bytes of header, payload, 32 bytes of MAC.
//   version u8 | type u8 | zero u16 | payload length u32 | sequence u64     (little-endian)
// Frames of the handshake carry a MAC of zeros and are numbered from 0; frames after it are
// numbered from 0 again in each direction and sealed with that direction's key, header included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/boot/hmac.h"
#include "runtime/base/status.h"

namespace onrt::cc {

inline constexpr uint8_t kWireVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 16;
inline constexpr size_t kFrameMacBytes = 32;
inline constexpr size_t kLargestFramePayload = 64 * 1024;
// Before a peer has proved anything.
inline constexpr size_t kLargestHandshakePayload = 2048;

enum class FrameType : uint8_t {
  kHello = 1,   // client: key kind, nonce
  kChallenge,   // server: nonce
  kProof,       // client
  kAccepted,    // server: its proof
  kRefused,     // server: why (text)
  kJoin,        // to the root: who I am
  kWelcome,     // from the root: place in the tree
  kLink,        // to the parent
  kLinked,      // from the parent
  kContribute,  // upwards: part of an exchange
  kResult,      // downwards
  kAsk,         // upwards: a deadline has passed, who is missing?
  kAbort,       // both ways: cause
  kPing,        // both ways
  kLeave,       // both ways: orderly end
};
inline constexpr uint8_t kLastFrameType = static_cast<uint8_t>(FrameType::kLeave);

// Sent without a key.
constexpr bool is_handshake(FrameType type) { return type <= FrameType::kRefused; }

struct Frame {
  FrameType type = FrameType::kPing;
  uint64_t sequence = 0;
  std::vector<std::byte> payload;
};

// Makes the frames of one direction of a connection. Thread-compatible.
class FrameSealer {
 public:
  FrameSealer() = default;  // handshake: no key
  explicit FrameSealer(const HmacKey& key) : key_(key) {}
  std::vector<std::byte> seal(FrameType type, std::span<const std::byte> payload);

 private:
  std::optional<HmacKey> key_;
  uint64_t next_ = 0;
};

// Takes a stream of bytes apart. Thread-compatible. After a failure the connection is worthless.
class FrameReader {
 public:
  // From now on frames must be sealed with `key`, numbered from 0, and may be large.
  void use_key(const HmacKey& key);
  void feed(std::span<const std::byte> bytes);
  // The next whole frame; nothing when more bytes are needed. NRT_INVALID says what was wrong:
  // version, type, length, number or MAC.
  Result<std::optional<Frame>> next();

 private:
  Status check_header(std::span<const std::byte> header) const;

  std::optional<HmacKey> key_;
  uint64_t next_ = 0;
  std::vector<std::byte> buffer_;
  size_t start_ = 0;  // of what was not consumed yet
};

}  // namespace onrt::cc
