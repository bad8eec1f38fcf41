// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/root_address.h"

#include <algorithm>
#include <charconv>

#include "runtime/base/format.h"
#include "runtime/base/log.h"

namespace onrt::cc {
namespace {

constexpr size_t kLongestHost = 253;  // RFC 1035

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

bool is_ipv6_character(char c) { return is_host_character(c) || c == ':' || c == '%'; }

}  // namespace

std::string RootAddress::text() const {
  return host.find(':') == std::string::npos ? format("{}:{}", host, port)
                                             : format("[{}]:{}", host, port);
}

Result<RootAddress> parse_root_address(std::string_view text, std::string_view variable) {
  const auto bad = [&](std::string_view why) {
    return Status(NRT_INVALID,
                  format("{}: expected host:port (IPv4, [IPv6] or name; port 1 to 65535), found "
                         "'{}': {}",
                         variable, one_line(text.substr(0, kLongestHost + 8)), why));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return bad("no port");
  }
  RootAddress address;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (error != std::errc() || end != digits.data() + digits.size() || address.port == 0) {
    return bad("the port is no number from 1 to 65535");
  }
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) {
    host = host.substr(1, host.size() - 2);
  }
  if (host.empty() || host.size() > kLongestHost) {
    return bad("no host");
  }
  if (!std::all_of(host.begin(), host.end(), bracketed ? is_ipv6_character : is_host_character)) {
    return bad(host.find(':') == std::string_view::npos
                   ? "the host has a character that no name has"
                   : "an IPv6 address needs brackets, as in [fd00::1]:45654");
  }
  if (host == "0.0.0.0" || host == "::") {
    return bad("this address stands for every interface; name the one that other ranks reach");
  }
  address.host = std::string(host);
  return address;
}

}  // namespace onrt::cc
