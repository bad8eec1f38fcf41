// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/reactor.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <map>
#include <thread>

#include "runtime/base/format.h"
#include "runtime/base/mutex.h"

namespace onrt::cc {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;

constexpr size_t kReadBytes = 16 * 1024;
constexpr std::chrono::seconds kFlushPatience{1};
constexpr std::chrono::milliseconds kAcceptPause{20};

std::string text_of(const Tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? format("[{}]:{}", address, endpoint.port())
                                    : format("{}:{}", address, endpoint.port());
}

// Counts what is open. The other side reads it from any thread; no order is needed.
class SocketCount {
 public:
  explicit SocketCount(std::atomic<int>& count) : count_(count) { ++count_; }
  ~SocketCount() { --count_; }
  SocketCount(const SocketCount&) = delete;
  SocketCount& operator=(const SocketCount&) = delete;

 private:
  std::atomic<int>& count_;
};

class AsioConnection : public Connection, public std::enable_shared_from_this<AsioConnection> {
 public:
  AsioConnection(Tcp::socket socket, std::atomic<int>& count)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), count_(count) {
    error_code ignored;
    socket_.set_option(Tcp::no_delay(true), ignored);
    const Tcp::endpoint peer = socket_.remote_endpoint(ignored);
    peer_text_ = text_of(peer);
    peer_address_ = peer.address().to_string();
    local_address_ = socket_.local_endpoint(ignored).address().to_string();
  }

  void start(Handlers handlers) override {
    handlers_ = std::move(handlers);
    read();
  }
  void send(std::vector<std::byte> bytes) override {
    if (closed_ || closing_) {
      return;
    }
    queue_.push_back(std::move(bytes));
    if (queue_.size() == 1) {
      write();
    }
  }
  void close() override {
    if (closed_) {
      return;
    }
    closed_ = true;
    error_code ignored;
    timer_.cancel(ignored);
    socket_.close(ignored);
    handlers_ = {};
  }
  void close_after_sending() override {
    handlers_ = {};
    if (queue_.empty()) {
      close();
      return;
    }
    closing_ = true;
    timer_.expires_after(kFlushPatience);
    timer_.async_wait([self = shared_from_this()](error_code error) {
      if (!error) {
        self->close();
      }
    });
  }
  const std::string& peer_text() const override { return peer_text_; }
  const std::string& peer_address() const override { return peer_address_; }
  const std::string& local_address() const override { return local_address_; }

 private:
  void read() {
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](error_code error, size_t size) {
                              if (self->closed_ || self->closing_) {
                                return;
                              }
                              if (error) {
                                self->fail(error);
                                return;
                              }
                              // A copy: the handler may close the connection and so destroy itself.
                              const auto on_bytes = self->handlers_.on_bytes;
                              on_bytes(std::span(self->buffer_).first(size));
                              if (!self->closed_ && !self->closing_) {
                                self->read();
                              }
                            });
  }
  void write() {
    asio::async_write(socket_, asio::buffer(queue_.front()),
                      [self = shared_from_this()](error_code error, size_t) {
                        if (self->closed_) {
                          return;
                        }
                        if (error) {
                          self->fail(error);
                          return;
                        }
                        self->queue_.pop_front();
                        if (!self->queue_.empty()) {
                          self->write();
                        } else if (self->closing_) {
                          self->close();
                        }
                      });
  }
  void fail(error_code error) {
    const auto on_closed = handlers_.on_closed;
    close();
    if (on_closed) {
      on_closed(error == asio::error::eof ? "connection closed by the peer" : error.message());
    }
  }

  Tcp::socket socket_;
  asio::steady_timer timer_;
  SocketCount count_;
  Handlers handlers_;
  std::deque<std::vector<std::byte>> queue_;
  std::array<std::byte, kReadBytes> buffer_;
  std::string peer_text_;
  std::string peer_address_;
  std::string local_address_;
  bool closed_ = false;
  bool closing_ = false;
};

class AsioAcceptor : public std::enable_shared_from_this<AsioAcceptor> {
 public:
  AsioAcceptor(asio::io_context& context, std::atomic<int>& count)
      : acceptor_(context), timer_(context), open_(count), own_(count) {}

  error_code open(const Tcp::endpoint& endpoint) {
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) {
      acceptor_.set_option(Tcp::acceptor::reuse_address(true), error);
    }
    if (!error) {
      acceptor_.bind(endpoint, error);
    }
    if (!error) {
      acceptor_.listen(asio::socket_base::max_listen_connections, error);
    }
    return error;
  }
  void start(std::function<void(ConnectionPtr)> on_connection) {
    on_connection_ = std::move(on_connection);
    accept();
  }
  void close() {
    error_code ignored;
    on_connection_ = nullptr;
    timer_.cancel(ignored);
    acceptor_.close(ignored);
  }
  uint16_t port() const {
    error_code ignored;
    return acceptor_.local_endpoint(ignored).port();
  }

 private:
  void accept() {
    acceptor_.async_accept([self = shared_from_this()](error_code error, Tcp::socket socket) {
      if (!self->on_connection_) {
        return;
      }
      if (error) {
        self->pause();
        return;
      }
      const auto on_connection = self->on_connection_;
      on_connection(std::make_shared<AsioConnection>(std::move(socket), self->open_));
      if (self->on_connection_) {
        self->accept();
      }
    });
  }
  // Too many open files, most likely: connections wait in the backlog meanwhile.
  void pause() {
    timer_.expires_after(kAcceptPause);
    timer_.async_wait([self = shared_from_this()](error_code error) {
      if (!error && self->on_connection_) {
        self->accept();
      }
    });
  }

  Tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  std::atomic<int>& open_;
  SocketCount own_;
  std::function<void(ConnectionPtr)> on_connection_;
};

class AsioListener : public Listener {
 public:
  explicit AsioListener(std::shared_ptr<AsioAcceptor> acceptor) : acceptor_(std::move(acceptor)) {}
  ~AsioListener() override { acceptor_->close(); }
  uint16_t port() const override { return acceptor_->port(); }

 private:
  std::shared_ptr<AsioAcceptor> acceptor_;
};

// One attempt to connect: socket and timer end each other.
struct Attempt {
  explicit Attempt(asio::io_context& context) : socket(context), timer(context) {}
  Tcp::socket socket;
  asio::steady_timer timer;
  bool over = false;
  std::function<void(ConnectionPtr, const std::string&)> done;

  void finish(ConnectionPtr connection, const std::string& why) {
    if (over) {
      return;
    }
    over = true;
    error_code ignored;
    timer.cancel(ignored);
    if (!connection) {
      socket.close(ignored);
    }
    done(std::move(connection), why);
  }
};

struct Watch {
  explicit Watch(asio::io_context& context) : descriptor(context) {}
  // Borrowed: never closed here.
  ~Watch() { descriptor.release(); }
  asio::posix::stream_descriptor descriptor;
  Reactor::Task task;
  bool over = false;
};

class AsioReactor : public Reactor {
 public:
  explicit AsioReactor(std::function<void(const char*)> on_exception)
      : on_exception_(std::move(on_exception)), work_(context_.get_executor()) {}
  ~AsioReactor() override {
    context_.stop();
    if (thread_.joinable()) {
      thread_.join();
    }
    timers_.clear();
    watches_.clear();
  }

  Status start() {
    // Signals stay with the program's own threads.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    Status status;
    try {
      thread_ = std::thread([this] { loop(); });
    } catch (const std::system_error& error) {
      status = Status(NRT_RESOURCE, format("control thread: {}", error.what()));
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return status;
  }

  void post(Task task) override { asio::post(context_, std::move(task)); }

  void run(Task task) override {
    Mutex mutex;
    CondVar done;
    bool finished = false;
    // Also when the task throws: the caller must not wait for ever.
    const auto finish = [&](void*) {
      const MutexLock lock(mutex);
      finished = true;
      done.notify_all();
    };
    post([&] {
      const std::unique_ptr<void, decltype(finish)> guard(&finished, finish);
      task();
    });
    const MutexLock lock(mutex);
    while (!finished) {
      done.wait(mutex);
    }
  }

  uint64_t after(std::chrono::milliseconds delay, Task task) override {
    const uint64_t id = ++last_id_;
    auto& timer = timers_.try_emplace(id, std::make_unique<asio::steady_timer>(context_, delay))
                      .first->second;
    timer->async_wait([this, id, task = std::move(task)](error_code error) {
      if (!error && timers_.erase(id) > 0) {
        task();
      }
    });
    return id;
  }
  void cancel(uint64_t timer) override { timers_.erase(timer); }

  uint64_t watch(int fd, Task task) override {
    auto entry = std::make_shared<Watch>(context_);
    error_code error;
    entry->descriptor.assign(fd, error);
    if (error) {
      return 0;
    }
    entry->task = std::move(task);
    const uint64_t id = ++last_id_;
    watches_[id] = entry;
    wait_for(entry);
    return id;
  }
  void unwatch(uint64_t id) override {
    const auto at = watches_.find(id);
    if (at != watches_.end()) {
      at->second->over = true;
      at->second->descriptor.release();
      watches_.erase(at);
    }
  }

  ListenResult listen(const std::string& address, uint16_t port,
                      std::function<void(ConnectionPtr)> on_connection) override {
    error_code error;
    const auto ip = asio::ip::make_address(address, error);
    auto acceptor = std::make_shared<AsioAcceptor>(context_, sockets_);
    if (!error) {
      error = acceptor->open({ip, port});
    }
    if (error) {
      return {nullptr, error.value()};
    }
    acceptor->start(std::move(on_connection));
    return {std::make_unique<AsioListener>(std::move(acceptor)), 0};
  }

  void connect(const std::string& address, uint16_t port, std::chrono::milliseconds patience,
               std::function<void(ConnectionPtr, const std::string&)> done) override {
    error_code error;
    const auto ip = asio::ip::make_address(address, error);
    auto attempt = std::make_shared<Attempt>(context_);
    attempt->done = std::move(done);
    if (error) {
      post([attempt, why = error.message()] { attempt->finish(nullptr, why); });
      return;
    }
    attempt->timer.expires_after(patience);
    attempt->timer.async_wait([attempt](error_code failed) {
      if (!failed) {
        attempt->finish(nullptr, "no answer to the connection request");
      }
    });
    attempt->socket.async_connect({ip, port}, [this, attempt](error_code failed) {
      if (attempt->over) {
        return;
      }
      if (failed) {
        attempt->finish(nullptr, failed.message());
        return;
      }
      attempt->finish(std::make_shared<AsioConnection>(std::move(attempt->socket), sockets_), "");
    });
  }

  int open_sockets() const override { return sockets_.load(std::memory_order_relaxed); }

 private:
  void loop() {
    ::pthread_setname_np(::pthread_self(), "onrt-control");
    while (true) {
      try {
        context_.run();
        return;
      } catch (const std::exception& error) {
        on_exception_(error.what());
      }
    }
  }
  void wait_for(const std::shared_ptr<Watch>& entry) {
    entry->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                 [this, entry](error_code error) {
                                   if (error || entry->over) {
                                     return;
                                   }
                                   // Asio also reports wake-ups that made nothing readable.
                                   pollfd state{entry->descriptor.native_handle(), POLLIN, 0};
                                   if (::poll(&state, 1, 0) > 0) {
                                     const Task task = entry->task;
                                     task();
                                   }
                                   if (!entry->over) {
                                     wait_for(entry);
                                   }
                                 });
  }

  std::function<void(const char*)> on_exception_;
  // Written by the control thread, read by counters(): a figure, no order needed. Before context_:
  // handlers that it drops own sockets.
  std::atomic<int> sockets_{0};
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, std::unique_ptr<asio::steady_timer>> timers_;
  std::map<uint64_t, std::shared_ptr<Watch>> watches_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Reactor>> Reactor::create(std::function<void(const char*)> on_exception) {
  try {
    auto reactor = std::make_unique<AsioReactor>(std::move(on_exception));
    ONRT_RETURN_IF_ERROR(reactor->start());
    return std::unique_ptr<Reactor>(std::move(reactor));
  } catch (const std::exception& error) {
    // Too many open files: epoll, timer and event descriptors.
    return Status(NRT_RESOURCE, format("control thread: {}", error.what()));
  }
}

}  // namespace onrt::cc
