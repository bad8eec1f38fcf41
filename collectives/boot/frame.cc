// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/frame.h"

#include "collectives/boot/wire.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

struct Header {
  uint8_t version;
  uint8_t type;
  uint16_t zero;
  uint32_t length;
  uint64_t sequence;
};

Header read_header(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  Header header{};
  header.version = in.number<uint8_t>();
  header.type = in.number<uint8_t>();
  header.zero = in.number<uint16_t>();
  header.length = in.number<uint32_t>();
  header.sequence = in.number<uint64_t>();
  return header;
}

}  // namespace

std::vector<std::byte> FrameSealer::seal(FrameType type, std::span<const std::byte> payload) {
  WireWriter out;
  out.number(kWireVersion);
  out.number(static_cast<uint8_t>(type));
  out.number(uint16_t{0});
  out.number(static_cast<uint32_t>(payload.size()));
  out.number(next_++);
  out.raw(payload);
  std::vector<std::byte> frame = out.take();
  const Mac mac = key_ ? key_->mac({frame}) : Mac{};
  frame.insert(frame.end(), mac.begin(), mac.end());
  return frame;
}

void FrameReader::use_key(const HmacKey& key) {
  key_ = key;
  next_ = 0;
}

void FrameReader::feed(std::span<const std::byte> bytes) {
  if (start_ > 0) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(start_));
    start_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Status FrameReader::check_header(std::span<const std::byte> bytes) const {
  const Header header = read_header(bytes);
  if (header.version != kWireVersion || header.zero != 0) {
    return Status(NRT_INVALID,
                  format("frame: expected version {}, found {}", kWireVersion, header.version));
  }
  if (header.type == 0 || header.type > kLastFrameType) {
    return Status(NRT_INVALID, format("frame: unknown type {}", header.type));
  }
  if (is_handshake(static_cast<FrameType>(header.type)) == key_.has_value()) {
    return Status(NRT_INVALID, format("frame: type {} {} the handshake", header.type,
                                      key_ ? "after" : "within"));
  }
  const size_t most = key_ ? kLargestFramePayload : kLargestHandshakePayload;
  if (header.length > most) {
    return Status(NRT_INVALID, format("frame: at most {} bytes, found {}", most, header.length));
  }
  if (header.sequence != next_) {
    return Status(NRT_INVALID,
                  format("frame: expected number {}, found {}", next_, header.sequence));
  }
  return ok_status();
}

Result<std::optional<Frame>> FrameReader::next() {
  const auto rest = std::span(buffer_).subspan(start_);
  if (rest.size() < kFrameHeaderBytes) {
    return std::optional<Frame>();
  }
  ONRT_RETURN_IF_ERROR(check_header(rest.first(kFrameHeaderBytes)));
  const Header header = read_header(rest);
  const size_t sealed = kFrameHeaderBytes + header.length;
  if (rest.size() < sealed + kFrameMacBytes) {
    return std::optional<Frame>();
  }
  const Mac expected = key_ ? key_->mac({rest.first(sealed)}) : Mac{};
  if (!equal_in_constant_time(expected, rest.subspan(sealed, kFrameMacBytes))) {
    return Status(NRT_INVALID, "frame: its authentication code is wrong");
  }
  Frame frame;
  frame.type = static_cast<FrameType>(header.type);
  frame.sequence = header.sequence;
  const auto payload = rest.subspan(kFrameHeaderBytes, header.length);
  frame.payload.assign(payload.begin(), payload.end());
  start_ += sealed + kFrameMacBytes;
  ++next_;
  return std::optional<Frame>(std::move(frame));
}

}  // namespace onrt::cc
