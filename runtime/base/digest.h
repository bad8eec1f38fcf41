// SPDX-License-Identifier: Apache-2.0
// MD5 (RFC 1321) and SHA-256 (FIPS 180-4), for the NEFF container. MD5 detects damage; it is no
// protection against somebody who forges a file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace onrt {

// Both hash functions work on 64-byte blocks; this keeps the unfinished one. Thread-compatible.
class DigestBuffer {
 protected:
  ~DigestBuffer() = default;
  // Calls block(pointer, count) for every run of whole blocks.
  template <class Block>
  void feed(std::span<const std::byte> data, Block&& block);
  // Appends 0x80, zeros and the length in bits.
  template <class Block>
  void finish_blocks(bool big_endian, Block&& block);

 private:
  std::array<uint8_t, 64> pending_{};
  size_t pending_size_ = 0;
  uint64_t total_ = 0;
};

class Md5 : private DigestBuffer {
 public:
  void update(std::span<const std::byte> data);
  // Once, at the end.
  std::array<uint8_t, 16> finish();

 private:
  void blocks(const uint8_t* data, size_t count);
  std::array<uint32_t, 4> state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
};

class Sha256 : private DigestBuffer {
 public:
  void update(std::span<const std::byte> data);
  // Once, at the end.
  std::array<uint8_t, 32> finish();

 private:
  void blocks(const uint8_t* data, size_t count);
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

std::array<uint8_t, 16> md5(std::span<const std::byte> data);
std::array<uint8_t, 32> sha256(std::span<const std::byte> data);

// Lower case, two digits a byte.
std::string to_hex(std::span<const uint8_t> bytes);

}  // namespace onrt
