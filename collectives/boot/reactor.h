// SPDX-License-Identifier: Apache-2.0
// The control thread: connections, timers and readable descriptors. Boost.Asio is behind it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace onrt::cc {

// A TCP connection. Owned by the control thread: all calls and handlers are made there.
class Connection {
 public:
  virtual ~Connection() = default;
  struct Handlers {
    std::function<void(std::span<const std::byte>)> on_bytes;
    std::function<void(const std::string& why)> on_closed;  // once; not after close()
  };
  virtual void start(Handlers handlers) = 0;
  virtual void send(std::vector<std::byte> bytes) = 0;
  // Closes without telling on_closed.
  virtual void close() = 0;
  // Closes when everything is sent, at most after a second; nothing more is received.
  virtual void close_after_sending() = 0;
  virtual const std::string& peer_text() const = 0;      // "127.0.0.1:40112"
  virtual const std::string& peer_address() const = 0;   // numeric
  virtual const std::string& local_address() const = 0;  // numeric
};
using ConnectionPtr = std::shared_ptr<Connection>;

class Listener {
 public:
  virtual ~Listener() = default;  // stops listening; on the control thread
  virtual uint16_t port() const = 0;
};

class Reactor {
 public:
  using Task = std::function<void()>;
  // `on_exception` is called on the control thread with what() of an exception (no memory).
  static Result<std::unique_ptr<Reactor>> create(std::function<void(const char*)> on_exception);
  virtual ~Reactor() = default;  // ends and joins the thread; outstanding handlers are dropped

  virtual void post(Task task) = 0;  // any thread
  // Posts and waits until it has run. Not on the control thread.
  virtual void run(Task task) = 0;

  // The others only on the control thread.
  virtual uint64_t after(std::chrono::milliseconds delay, Task task) = 0;
  virtual void cancel(uint64_t timer) = 0;
  // Calls `task` whenever `fd` (borrowed) is readable, until unwatch(). 0 when it can't be watched.
  virtual uint64_t watch(int fd, Task task) = 0;
  virtual void unwatch(uint64_t id) = 0;
  // Port 0: any. The system's error number is in `error` when it fails.
  struct ListenResult {
    std::unique_ptr<Listener> listener;
    int error = 0;
  };
  virtual ListenResult listen(const std::string& address, uint16_t port,
                              std::function<void(ConnectionPtr)> on_connection) = 0;
  // Connection, or null and why not.
  virtual void connect(const std::string& address, uint16_t port,
                       std::chrono::milliseconds patience,
                       std::function<void(ConnectionPtr, const std::string&)> done) = 0;
  virtual int open_sockets() const = 0;  // any thread
};

}  // namespace onrt::cc
