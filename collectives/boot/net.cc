// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/net.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return text.data();
}

socklen_t size_of(const sockaddr& address) {
  return address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

// "::ffff:10.0.0.1" -> "10.0.0.1".
std::string unmapped(const std::string& text) {
  constexpr std::string_view kMapped = "::ffff:";
  return text.starts_with(kMapped) && text.find('.') != std::string::npos
             ? text.substr(kMapped.size())
             : text;
}

}  // namespace

Result<std::vector<std::string>> resolve(const RootAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return Status(NRT_FAILURE, format("'{}': {}", address.host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  std::vector<std::string> out;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
      const std::string text =
          entry->ai_family == family ? numeric(entry->ai_addr, entry->ai_addrlen) : "";
      if (!text.empty() && std::find(out.begin(), out.end(), text) == out.end()) {
        out.push_back(text);
      }
    }
  }
  if (out.empty()) {
    return Status(NRT_FAILURE, format("'{}': no IPv4 or IPv6 address", address.host));
  }
  return out;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> out;
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) {
    return out;
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(found, ::freeifaddrs);
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    const bool is_ip = entry->ifa_addr != nullptr && (entry->ifa_addr->sa_family == AF_INET ||
                                                      entry->ifa_addr->sa_family == AF_INET6);
    if (is_ip) {
      out.push_back(numeric(entry->ifa_addr, size_of(*entry->ifa_addr)));
    }
  }
  return out;
}

bool is_own_address(const std::string& text) {
  const std::string address = unmapped(text);
  if (address.starts_with("127.") || address == "::1") {
    return true;
  }
  const std::vector<std::string> own = own_addresses();
  return std::find(own.begin(), own.end(), address) != own.end();
}

std::string host_identity(int folder) {
  std::string boot = "unknown";
  if (const auto text = read_file("/proc/sys/kernel/random/boot_id", 64); text.ok()) {
    boot.assign(reinterpret_cast<const char*>((*text).data()), (*text).size());
    boot.erase(std::remove(boot.begin(), boot.end(), '\n'), boot.end());
  }
  struct stat space{};
  struct stat place{};
  if (::stat("/proc/self/ns/pid", &space) != 0 || ::fstat(folder, &place) != 0) {
    return format("{}/pid {}", boot, ::getpid());  // shares with nobody
  }
  return format("{}/{}/{}:{}", boot, space.st_ino, place.st_dev, place.st_ino);
}

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace onrt::cc
