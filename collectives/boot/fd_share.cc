// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/fd_share.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 1024;
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{50};
constexpr std::chrono::milliseconds kSlice{20};
constexpr std::chrono::seconds kTemporaryAge{2};
constexpr std::string_view kPrefix = "cc.";
constexpr std::string_view kSuffix = ".sock";
constexpr std::string_view kTemporarySuffix = ".sock.new";

std::string reason(int error) { return std::generic_category().message(error); }

// The 108 bytes of sun_path would not hold every folder's path.
sockaddr_un address_of(int folder, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = format("/proc/self/fd/{}/{}", folder, name);
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  return address;
}

UniqueFd make_socket() {
  return above_standard_streams(
      UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
}

// 0 or errno.
int connect_to(int socket, int folder, const std::string& name) {
  const sockaddr_un address = address_of(folder, name);
  return ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0
             ? 0
             : errno;
}

using ControlBuffer = std::array<char, CMSG_SPACE(kMostSharedFds * sizeof(int))>;

std::vector<UniqueFd> descriptors_of(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
      fds.push_back(above_standard_streams(UniqueFd(fd)));
    }
  }
  return fds;
}

// Nothing when the connection ended without an answer: try again.
Result<std::optional<std::vector<UniqueFd>>> receive(int socket, size_t count) {
  std::byte byte{};
  iovec data{&byte, 1};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got <= 0) {
    return std::optional<std::vector<UniqueFd>>();
  }
  std::vector<UniqueFd> fds = descriptors_of(message);
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return Status(NRT_RESOURCE, "no room for descriptors of other ranks: raise `ulimit -n`");
  }
  if (fds.size() != count) {
    return Status(NRT_INVALID,
                  format("expected {} descriptors of a rank, found {}", count, fds.size()));
  }
  return std::optional(std::move(fds));
}

// Waits in slices, so that give_up() is heard.
bool wait_readable(int socket, Clock::time_point deadline, const std::function<bool()>& give_up) {
  while (Clock::now() < deadline && !give_up()) {
    pollfd entry{socket, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(kSlice.count())) > 0) {
      return true;
    }
  }
  return false;
}

bool is_stale(int folder, const std::string& name) {
  if (name.ends_with(kTemporarySuffix)) {
    struct stat status{};
    timespec now{};
    return ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           ::clock_gettime(CLOCK_REALTIME, &now) == 0 &&
           now.tv_sec - status.st_mtim.tv_sec > kTemporaryAge.count();
  }
  const UniqueFd socket = make_socket();
  return socket.valid() && connect_to(socket.get(), folder, name) == ECONNREFUSED;
}

}  // namespace

std::string socket_name(uint64_t job, const std::string& what) {
  return format("{}{:016x}.{}{}", kPrefix, job, what, kSuffix);
}

void remove_stale_sockets(int folder) {
  UniqueFd again = open_file_at(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* listing = again.valid() ? ::fdopendir(again.get()) : nullptr;
  if (listing == nullptr) {
    return;
  }
  again.release();  // closedir() closes it
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing)) {  // NOLINT(concurrency-mt-unsafe): own stream
    const std::string_view name(entry->d_name);
    if (name.starts_with(kPrefix) &&
        (name.ends_with(kSuffix) || name.ends_with(kTemporarySuffix))) {
      names.emplace_back(name);
    }
  }
  ::closedir(listing);
  for (const std::string& name : names) {
    if (is_stale(folder, name)) {
      ::unlinkat(folder, name.c_str(), 0);
    }
  }
}

Result<FdServer> FdServer::open(int folder, const std::string& name, std::vector<int> fds) {
  if (fds.size() > kMostSharedFds) {
    return Status(NRT_INVALID, format("{} descriptors: at most {} can be shared at a time",
                                      fds.size(), kMostSharedFds));
  }
  UniqueFd socket = make_socket();
  // Its final name appears only once it listens: a name that refuses is that of a dead server.
  const std::string temporary = name + ".new";
  const sockaddr_un address = address_of(folder, temporary);
  const bool made =
      socket.valid() &&
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      ::listen(socket.get(), kBacklog) == 0 &&
      ::renameat(folder, temporary.c_str(), folder, name.c_str()) == 0;
  if (!made) {
    const int error = errno;
    ::unlinkat(folder, temporary.c_str(), 0);
    return Status(NRT_FAILURE, format("socket '{}': {}", name, reason(error)));
  }
  return FdServer(folder, name, std::move(socket), std::move(fds));
}

FdServer::~FdServer() {
  if (socket_.valid()) {
    ::unlinkat(folder_, name_.c_str(), 0);
  }
}

void FdServer::serve() {
  while (true) {
    const UniqueFd client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) {
        continue;
      }
      return;
    }
    answer(client.get());
  }
}

void FdServer::answer(int client) const {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid()) {
    return;
  }
  std::byte byte{1};
  iovec data{&byte, 1};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds_.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds_.size() * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds_.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), fds_.data(), fds_.size() * sizeof(int));
  }
  // ETOOMANYREFS (more descriptors under way than `ulimit -n`) and others: the client sees the
  // connection end and comes again.
  [[maybe_unused]] const ssize_t sent = ::sendmsg(client, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

Result<std::vector<UniqueFd>> fetch_fds(int folder, const std::string& name, size_t count,
                                        Clock::time_point deadline,
                                        const std::function<bool()>& give_up) {
  auto pause = kFirstPause;
  int error = 0;
  while (Clock::now() < deadline && !give_up()) {
    const UniqueFd socket = make_socket();
    if (!socket.valid()) {
      return Status(NRT_RESOURCE, format("socket: {}", reason(errno)));
    }
    error = connect_to(socket.get(), folder, name);
    if (error == 0 && wait_readable(socket.get(), deadline, give_up)) {
      ONRT_ASSIGN_OR_RETURN(auto fds, receive(socket.get(), count));
      if (fds) {
        return std::move(*fds);
      }
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
  return Status(NRT_TIMEOUT, format("no descriptors from '{}': {}", name,
                                    error == 0 ? "it does not answer" : reason(error)));
}

}  // namespace onrt::cc
