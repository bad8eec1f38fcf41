// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/hmac.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr size_t kBlockBytes = 64;
constexpr std::byte kInnerPad{0x36};
constexpr std::byte kOuterPad{0x5c};

using Block = std::array<std::byte, kBlockBytes>;

Block padded(const Block& key, std::byte pad) {
  Block out = key;
  for (std::byte& byte : out) {
    byte ^= pad;
  }
  return out;
}

}  // namespace

HmacKey::HmacKey(std::span<const std::byte> key) {
  Block block{};
  if (key.size() > kBlockBytes) {
    const auto digest = sha256(key);
    std::memcpy(block.data(), digest.data(), digest.size());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  inner_.update(padded(block, kInnerPad));
  outer_.update(padded(block, kOuterPad));
}

Mac HmacKey::mac(std::initializer_list<std::span<const std::byte>> parts) const {
  Sha256 inner = inner_;
  for (const auto& part : parts) {
    inner.update(part);
  }
  const auto digest = inner.finish();
  Sha256 outer = outer_;
  outer.update(std::as_bytes(std::span(digest)));
  return std::bit_cast<Mac>(outer.finish());
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) {
    return false;
  }
  std::byte difference{0};
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= a[i] ^ b[i];
  }
  return difference == std::byte{0};
}

Result<Nonce> random_nonce() {
  Nonce nonce{};
  size_t done = 0;
  while (done < nonce.size()) {
    const ssize_t got = ::getrandom(nonce.data() + done, nonce.size() - done, 0);
    if (got < 0 && errno != EINTR) {
      return Status(NRT_FAILURE, format("getrandom: error {}", errno));
    }
    done += got > 0 ? static_cast<size_t>(got) : 0;
  }
  return nonce;
}

}  // namespace onrt::cc
