// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/digest.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

namespace onrt {
namespace {

constexpr size_t kBlockBytes = 64;

uint32_t load_little(const uint8_t* p) {
  return uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
}

uint32_t load_big(const uint8_t* p) {
  return uint32_t{p[3]} | uint32_t{p[2]} << 8 | uint32_t{p[1]} << 16 | uint32_t{p[0]} << 24;
}

// RFC 1321, 3.4: T[i] = floor(2^32 * abs(sin(i + 1))).
constexpr std::array<uint32_t, 64> kMd5Sines = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
constexpr std::array<std::array<int, 4>, 4> kMd5Shifts = {
    {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}};

// FIPS 180-4, 4.2.2: fractions of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kSha256Roots = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// Calls step(kFirst) ... step(kFirst + 15) with constants, so that table look-ups fold away.
template <size_t kFirst, class Step, size_t... kIndex>
inline void unroll(Step&& step, std::index_sequence<kIndex...>) {
  (step(std::integral_constant<size_t, kFirst + kIndex>()), ...);
}
template <size_t kFirst, class Step>
inline void unrolled(Step&& step) {
  unroll<kFirst>(step, std::make_index_sequence<16>());
}

}  // namespace

template <class Block>
void DigestBuffer::feed(std::span<const std::byte> data, Block&& block) {
  const auto* next = reinterpret_cast<const uint8_t*>(data.data());
  size_t left = data.size();
  total_ += left;
  if (pending_size_ > 0) {
    const size_t take = std::min(left, kBlockBytes - pending_size_);
    std::memcpy(pending_.data() + pending_size_, next, take);
    pending_size_ += take;
    next += take;
    left -= take;
    if (pending_size_ < kBlockBytes) {
      return;
    }
    block(pending_.data(), size_t{1});
    pending_size_ = 0;
  }
  const size_t whole = left / kBlockBytes;
  if (whole > 0) {
    block(next, whole);
    next += whole * kBlockBytes;
    left -= whole * kBlockBytes;
  }
  if (left > 0) {
    std::memcpy(pending_.data(), next, left);
    pending_size_ = left;
  }
}

template <class Block>
void DigestBuffer::finish_blocks(bool big_endian, Block&& block) {
  const uint64_t bits = total_ * 8;
  std::array<uint8_t, 2 * kBlockBytes> tail{};
  std::memcpy(tail.data(), pending_.data(), pending_size_);
  tail[pending_size_] = 0x80;
  const size_t count = pending_size_ + 1 + 8 > kBlockBytes ? 2 : 1;
  uint8_t* length = tail.data() + count * kBlockBytes - 8;
  for (int i = 0; i < 8; ++i) {
    length[i] = static_cast<uint8_t>(bits >> (8 * (big_endian ? 7 - i : i)));
  }
  block(tail.data(), count);
}

void Md5::update(std::span<const std::byte> data) {
  feed(data, [this](const uint8_t* p, size_t count) { blocks(p, count); });
}

std::array<uint8_t, 16> Md5::finish() {
  finish_blocks(false, [this](const uint8_t* p, size_t count) { blocks(p, count); });
  std::array<uint8_t, 16> out;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint8_t>(state_[i / 4] >> (8 * (i % 4)));
  }
  return out;
}

void Md5::blocks(const uint8_t* data, size_t count) {
  for (; count > 0; --count, data += kBlockBytes) {
    std::array<uint32_t, 16> words;
    for (size_t i = 0; i < 16; ++i) {
      words[i] = load_little(data + 4 * i);
    }
    auto [a, b, c, d] = state_;
    const auto step = [&](uint32_t mix, uint32_t word, size_t i) {
      const uint32_t sum = a + mix + kMd5Sines[i] + word;
      a = d;
      d = c;
      c = b;
      b += std::rotl(sum, kMd5Shifts[i / 16][i % 4]);
    };
    unrolled<0>([&](auto i) { step(d ^ (b & (c ^ d)), words[i], i); });
    unrolled<16>([&](auto i) { step(c ^ (d & (b ^ c)), words[(5 * i + 1) % 16], i); });
    unrolled<32>([&](auto i) { step(b ^ c ^ d, words[(3 * i + 5) % 16], i); });
    unrolled<48>([&](auto i) { step(c ^ (b | ~d), words[(7 * i) % 16], i); });
    state_[0] += a;
    state_[1] += b;
    state_[2] += c;
    state_[3] += d;
  }
}

void Sha256::update(std::span<const std::byte> data) {
  feed(data, [this](const uint8_t* p, size_t count) { blocks(p, count); });
}

std::array<uint8_t, 32> Sha256::finish() {
  finish_blocks(true, [this](const uint8_t* p, size_t count) { blocks(p, count); });
  std::array<uint8_t, 32> out;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return out;
}

void Sha256::blocks(const uint8_t* data, size_t count) {
  for (; count > 0; --count, data += kBlockBytes) {
    std::array<uint32_t, 64> w;
    for (size_t i = 0; i < 16; ++i) {
      w[i] = load_big(data + 4 * i);
    }
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t x = w[i - 15];
      const uint32_t y = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3)) +
             (std::rotr(y, 17) ^ std::rotr(y, 19) ^ (y >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                          (g ^ (e & (f ^ g))) + kSha256Roots[i] + w[i];
      const uint32_t t2 =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) | (c & (a | b)));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const std::array<uint32_t, 8> add = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) {
      state_[i] += add[i];
    }
  }
}

std::array<uint8_t, 16> md5(std::span<const std::byte> data) {
  Md5 digest;
  digest.update(data);
  return digest.finish();
}

std::array<uint8_t, 32> sha256(std::span<const std::byte> data) {
  Sha256 digest;
  digest.update(data);
  return digest.finish();
}

std::string to_hex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace onrt
