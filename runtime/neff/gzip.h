// SPDX-License-Identifier: Apache-2.0
// gzip (RFC 1952) in memory, on zlib's deflate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace onrt {

bool is_gzip(std::span<const std::byte> data);

// Most that `compressed` bytes may expand to: 64 times, but at least 256 MiB. Bounds what a small
// hostile file can make the reader allocate; the writer keeps to it.
uint64_t gzip_expansion_limit(uint64_t compressed);

// All gzip members of `data`, one after the other. NRT_INVALID for damage, bytes that follow, or a
// result beyond `limit`.
Result<std::vector<std::byte>> gunzip(std::span<const std::byte> data, uint64_t limit);

// Writes one gzip member, piece by piece, to the end of `out`. A stored piece keeps its bytes
// unchanged and its size does not depend on them. Thread-compatible.
class GzipWriter {
 public:
  explicit GzipWriter(std::vector<std::byte>& out);
  // The first piece's bytes may be replaced later, before finish(); hence its place.
  void stored(std::span<const std::byte> piece);
  // Falls back to stored() for pieces that are small or do not shrink.
  Status deflated(std::span<const std::byte> piece);
  // Ends the member that was written to the end of `out`. crc, size: of all pieces.
  static void finish(std::vector<std::byte>& out, uint32_t crc, uint64_t size);

  static constexpr size_t kHeaderBytes = 10;
  static constexpr size_t kStoredHeaderBytes = 5;
  static constexpr size_t kStoredMost = 65535;

 private:
  void append(std::span<const std::byte> bytes);
  Status deflate_all(std::span<const std::byte> piece);

  std::vector<std::byte>& out_;
};

}  // namespace onrt
