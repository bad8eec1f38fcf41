// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/root_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

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

// RFC 4291 2.2 with RFC 4007's zone: fe80::1%eth0.
bool parse_ipv6(std::string_view host, in6_addr* address) {
  const size_t percent = host.find('%');
  const std::string digits(host.substr(0, percent));
  const std::string_view zone =
      percent == std::string_view::npos ? std::string_view("none") : host.substr(percent + 1);
  return !zone.empty() && std::all_of(zone.begin(), zone.end(), is_host_character) &&
         digits.find('\0') == std::string::npos &&
         inet_pton(AF_INET6, digits.c_str(), address) == 1;
}

// inet_aton reads what getaddrinfo reads, "0" and "0x0.0" included.
bool is_every_interface(const std::string& host) {
  in_addr address{};
  return inet_aton(host.c_str(), &address) == 1 && address.s_addr == INADDR_ANY;
}

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
  address.host = std::string(host);
  in6_addr ipv6{};
  if (bracketed && !parse_ipv6(host, &ipv6)) {
    return bad("what stands in the brackets is no IPv6 address");
  }
  if (!bracketed && !std::all_of(host.begin(), host.end(), is_host_character)) {
    return bad(host.find(':') == std::string_view::npos
                   ? "the host has a character that no name has"
                   : "an IPv6 address needs brackets, as in [fd00::1]:45654");
  }
  if (bracketed ? IN6_IS_ADDR_UNSPECIFIED(&ipv6) : is_every_interface(address.host)) {
    return bad("this address stands for every interface; name the one that other ranks reach");
  }
  return address;
}

}  // namespace onrt::cc
