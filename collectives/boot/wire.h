// SPDX-License-Identifier: Apache-2.0
// Payloads of bootstrap frames: little-endian numbers and counted strings. The reader never reads
// beyond its bytes: the first value that isn't there makes it bad(), and everything after is empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace onrt::cc {

class WireWriter {
 public:
  template <class Number>
  void number(Number value) {
    static_assert(std::is_unsigned_v<Number>);
    for (size_t i = 0; i < sizeof(Number); ++i) {
      out_.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i)));
    }
  }
  void raw(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void text(std::string_view text) {
    number(static_cast<uint32_t>(text.size()));
    raw(std::as_bytes(std::span(text.data(), text.size())));
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class Number>
  Number number() {
    static_assert(std::is_unsigned_v<Number>);
    const auto bytes = raw(sizeof(Number));
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    }
    return static_cast<Number>(value);
  }
  std::span<const std::byte> raw(size_t size) {
    if (bad_ || size > rest_.size()) {
      bad_ = true;
      return {};
    }
    const auto out = rest_.first(size);
    rest_ = rest_.subspan(size);
    return out;
  }
  std::span<const std::byte> remainder() { return raw(rest_.size()); }
  std::string text(size_t longest) {
    const auto size = number<uint32_t>();
    if (size > longest) {
      bad_ = true;
    }
    const auto bytes = raw(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Something was missing or too long.
  bool bad() const { return bad_; }
  // Everything was read and nothing was missing.
  bool complete() const { return !bad_ && rest_.empty(); }
  size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
  bool bad_ = false;
};

}  // namespace onrt::cc
