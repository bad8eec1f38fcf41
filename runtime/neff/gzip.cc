// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "runtime/base/format.h"

namespace onrt {
namespace {

constexpr uint64_t kMostExpansion = 64;
constexpr uint64_t kSmallLimit = uint64_t{256} << 20;
// Pieces below this are stored: starting a deflate stream costs more than it saves.
constexpr size_t kLeastDeflated = 4096;
// Of a large piece this much is tried first.
constexpr size_t kSampleBytes = 64 << 10;
constexpr size_t kSampledPieces = 4 * kSampleBytes;

uInt chunk(size_t size) {
  return static_cast<uInt>(std::min<size_t>(size, std::numeric_limits<uInt>::max()));
}

Bytef* zlib_bytes(const std::byte* data) {
  return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(data));
}

struct InflateEnd {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};
struct DeflateEnd {
  void operator()(z_stream* stream) const { deflateEnd(stream); }
};

// Size that the last member claims, modulo 2^32; a hint only.
uint64_t size_hint(std::span<const std::byte> data) {
  uint64_t size = 0;
  for (size_t i = 0; i < 4; ++i) {
    size |= std::to_integer<uint64_t>(data[data.size() - 4 + i]) << (8 * i);
  }
  return size;
}

// Whether deflate is worth its time for `piece`: looks at a sample from the middle.
bool shrinks(std::span<const std::byte> piece) {
  const auto sample = piece.subspan(piece.size() / 2, kSampleBytes);
  uLongf size = compressBound(kSampleBytes);
  const auto buffer = std::make_unique<Bytef[]>(size);
  return compress2(buffer.get(), &size, zlib_bytes(sample.data()), kSampleBytes, Z_BEST_SPEED) ==
             Z_OK &&
         size < kSampleBytes / 10 * 9;
}

}  // namespace

bool is_gzip(std::span<const std::byte> data) {
  return data.size() >= 2 && data[0] == std::byte{0x1F} && data[1] == std::byte{0x8B};
}

uint64_t gzip_expansion_limit(uint64_t compressed) {
  if (compressed > std::numeric_limits<uint64_t>::max() / kMostExpansion) {
    return std::numeric_limits<uint64_t>::max();
  }
  return std::max(kSmallLimit, compressed * kMostExpansion);
}

Result<std::vector<std::byte>> gunzip(std::span<const std::byte> data, uint64_t limit) {
  constexpr size_t kLeastMember = 18;
  if (data.size() < kLeastMember) {
    return Status(NRT_INVALID, format("gzip payload of {} bytes is too short", data.size()));
  }
  z_stream stream{};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) {
    return Status(NRT_RESOURCE, "no memory to decompress the payload");
  }
  const std::unique_ptr<z_stream, InflateEnd> end(&stream);
  std::vector<std::byte> out(std::min({size_hint(data), limit, data.size() * kMostExpansion}));
  size_t in_at = 0;
  size_t out_at = 0;
  const auto damaged = [&](const char* why) {
    return Status(NRT_INVALID,
                  format("gzip payload: {} at byte {} of {}", why, in_at, data.size()));
  };
  for (;;) {
    if (out_at == out.size()) {
      if (out.size() > limit) {
        return Status(NRT_INVALID, format("gzip payload of {} bytes expands to more than {} ({})",
                                          data.size(), limit, format_bytes(limit)));
      }
      out.resize(std::min(limit + 1, std::max<uint64_t>(2 * out.size(), 64 << 10)));
    }
    stream.next_in = zlib_bytes(data.data() + in_at);
    stream.avail_in = chunk(data.size() - in_at);
    stream.next_out = zlib_bytes(out.data() + out_at);
    stream.avail_out = chunk(out.size() - out_at);
    const int code = inflate(&stream, Z_NO_FLUSH);
    in_at = static_cast<size_t>(reinterpret_cast<std::byte*>(stream.next_in) - data.data());
    out_at = static_cast<size_t>(reinterpret_cast<std::byte*>(stream.next_out) - out.data());
    if (code == Z_STREAM_END) {
      if (in_at == data.size()) {
        break;
      }
      if (!is_gzip(data.subspan(in_at)) || inflateReset(&stream) != Z_OK) {
        return damaged("bytes after the end");
      }
    } else if (code == Z_MEM_ERROR) {
      return Status(NRT_RESOURCE, "no memory to decompress the payload");
    } else if (code != Z_OK && !(code == Z_BUF_ERROR && stream.avail_out == 0)) {
      return damaged(code == Z_BUF_ERROR ? "unexpected end" : "damaged data");
    }
  }
  if (out_at > limit) {
    return Status(NRT_INVALID, format("gzip payload of {} bytes expands to more than {} ({})",
                                      data.size(), limit, format_bytes(limit)));
  }
  out.resize(out_at);
  return out;
}

GzipWriter::GzipWriter(std::vector<std::byte>& out) : out_(out) {
  // No name, no time, "unknown" system: the same bytes everywhere.
  constexpr std::array<uint8_t, kHeaderBytes> kHeader = {0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255};
  append(std::as_bytes(std::span(kHeader)));
}

void GzipWriter::append(std::span<const std::byte> bytes) {
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

void GzipWriter::stored(std::span<const std::byte> piece) {
  while (!piece.empty()) {
    const size_t size = std::min(piece.size(), kStoredMost);
    const auto low = static_cast<uint8_t>(size);
    const auto high = static_cast<uint8_t>(size >> 8);
    // Not the last block, type 0; then the length and its complement (RFC 1951, 3.2.4).
    const std::array<uint8_t, kStoredHeaderBytes> header = {
        0, low, high, static_cast<uint8_t>(~low), static_cast<uint8_t>(~high)};
    append(std::as_bytes(std::span(header)));
    append(piece.first(size));
    piece = piece.subspan(size);
  }
}

Status GzipWriter::deflated(std::span<const std::byte> piece) {
  if (piece.size() < kLeastDeflated || (piece.size() >= kSampledPieces && !shrinks(piece))) {
    stored(piece);
    return ok_status();
  }
  return deflate_all(piece);
}

Status GzipWriter::deflate_all(std::span<const std::byte> piece) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return Status(NRT_RESOURCE, "no memory to compress the payload");
  }
  const std::unique_ptr<z_stream, DeflateEnd> end(&stream);
  constexpr size_t kStep = 64 << 10;
  for (;;) {
    stream.next_in = zlib_bytes(piece.data());
    stream.avail_in = chunk(piece.size());
    const bool last = stream.avail_in == piece.size();
    const size_t before = out_.size();
    out_.resize(before + kStep);
    stream.next_out = zlib_bytes(out_.data() + before);
    stream.avail_out = kStep;
    // A sync flush ends on a byte, so that any piece can follow.
    const int code = deflate(&stream, last ? Z_SYNC_FLUSH : Z_NO_FLUSH);
    out_.resize(before + kStep - stream.avail_out);
    piece = piece.subspan(
        static_cast<size_t>(reinterpret_cast<const std::byte*>(stream.next_in) - piece.data()));
    if (code != Z_OK && code != Z_BUF_ERROR) {
      return Status(NRT_FAILURE, format("deflate failed with zlib status {}", code));
    }
    if (last && piece.empty() && stream.avail_out > 0) {
      return ok_status();
    }
  }
}

void GzipWriter::finish(std::vector<std::byte>& out, uint32_t crc, uint64_t size) {
  // An empty stored block that is the last one, then CRC and size.
  std::array<uint8_t, kStoredHeaderBytes + 8> tail = {1, 0, 0, 0xFF, 0xFF};
  for (size_t i = 0; i < 4; ++i) {
    tail[5 + i] = static_cast<uint8_t>(crc >> (8 * i));
    tail[9 + i] = static_cast<uint8_t>(size >> (8 * i));
  }
  const auto bytes = std::as_bytes(std::span(tail));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace onrt
