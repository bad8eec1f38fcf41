// SPDX-License-Identifier: Apache-2.0
// HMAC-SHA256 (RFC 2104) and what goes with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "runtime/base/digest.h"
#include "runtime/base/status.h"

namespace onrt::cc {

using Mac = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;

// A key with its two first blocks hashed once, so that a short message costs two blocks less.
// Immutable, hence thread-safe.
class HmacKey {
 public:
  explicit HmacKey(std::span<const std::byte> key);
  // MAC of the parts, one after the other.
  Mac mac(std::initializer_list<std::span<const std::byte>> parts) const;

 private:
  Sha256 inner_;
  Sha256 outer_;
};

// Takes as long for the first byte that differs as for the last.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);

// From the system's generator. NRT_FAILURE when it has none.
Result<Nonce> random_nonce();

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace onrt::cc
