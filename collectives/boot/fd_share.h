// SPDX-License-Identifier: Apache-2.0
// Descriptors for processes of the same user and host: a Unix socket in a private folder hands
// copies to whoever connects. Nothing stays behind: the name goes with the server, and names of
// killed servers go when the next one is made.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::cc {

inline constexpr size_t kMostSharedFds = 64;

// Thread-compatible.
class FdServer {
 public:
  // `fds` are borrowed and must stay open as long as the server.
  static Result<FdServer> open(int folder, const std::string& name, std::vector<int> fds);
  FdServer(FdServer&&) = default;
  FdServer& operator=(FdServer&&) = delete;
  ~FdServer();

  // Readable when somebody waits.
  int fd() const { return socket_.get(); }
  // Serves everybody who waits; never blocks. Those of other users get nothing.
  void serve();

 private:
  FdServer(int folder, std::string name, UniqueFd socket, std::vector<int> fds)
      : folder_(folder), name_(std::move(name)), socket_(std::move(socket)), fds_(std::move(fds)) {}
  void answer(int client) const;

  int folder_;
  std::string name_;
  UniqueFd socket_;
  std::vector<int> fds_;
};

// Gets the descriptors of the server `name`; waits for it to appear and to answer until `deadline`
// or until `give_up()`. `count` of them are expected. NRT_TIMEOUT, NRT_INVALID.
Result<std::vector<UniqueFd>> fetch_fds(int folder, const std::string& name, size_t count,
                                        std::chrono::steady_clock::time_point deadline,
                                        const std::function<bool()>& give_up);

// "cc.<job>.<what>.sock".
std::string socket_name(uint64_t job, const std::string& what);
// Removes the sockets of processes that are gone.
void remove_stale_sockets(int folder);

}  // namespace onrt::cc
