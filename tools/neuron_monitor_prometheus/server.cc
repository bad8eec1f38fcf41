// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_monitor_prometheus/server.h"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdio>
#include <istream>
#include <memory>
#include <optional>

#include "runtime/base/format.h"
#include "tools/common/table.h"
#include "tools/neuron_monitor_prometheus/metrics.h"

namespace onrt::tools {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;

constexpr size_t kLargestReport = 64 << 20;
constexpr size_t kLargestRequest = 8 << 10;
constexpr std::chrono::seconds kPatience(15);
constexpr int kMostConnections = 64;

double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct State {
  Metrics metrics;
  int connections = 0;
};

using Response = http::response<http::string_body>;

Response answer(const http::request<http::empty_body>& request, const Metrics& metrics) {
  Response response{http::status::ok, request.version()};
  response.set(http::field::server, "neuron-monitor-prometheus");
  response.keep_alive(request.keep_alive());
  const auto target = request.target().substr(0, request.target().find('?'));
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    response.result(http::status::method_not_allowed);
    response.set(http::field::allow, "GET, HEAD");
    response.body() = "only GET and HEAD\n";
  } else if (target != "/" && target != "/metrics") {
    response.result(http::status::not_found);
    response.body() = "metrics are at /metrics\n";
  } else if (!metrics.ready()) {
    response.result(http::status::service_unavailable);
    response.body() = "no report of neuron-monitor yet\n";
  } else {
    const auto accept = request[http::field::accept];
    const ExpositionFormat format = format_for({accept.data(), accept.size()});
    response.set(http::field::content_type, std::string(content_type(format)));
    response.body() = metrics.page(format);
  }
  response.prepare_payload();
  if (request.method() == http::verb::head) {
    response.body().clear();
  }
  return response;
}

// One connection; keeps itself alive while it has something to do.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Tcp::socket socket, State& state) : stream_(std::move(socket)), state_(state) {
    ++state_.connections;
  }
  ~Connection() { --state_.connections; }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(kLargestRequest);
    parser_->body_limit(kLargestRequest);
    stream_.expires_after(kPatience);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, size_t) {
                       if (!error) {
                         self->write();
                       }
                     });
  }

 private:
  void write() {
    response_ = answer(parser_->get(), state_.metrics);
    stream_.expires_after(kPatience);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        if (!error && self->response_.keep_alive()) {
                          self->read();
                        }
                      });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kLargestRequest};
  std::optional<http::request_parser<http::empty_body>> parser_;
  Response response_;
  State& state_;
};

class Server {
 public:
  Server(asio::io_context& context, int input)
      : context_(context), acceptor_(context), input_(context, input), lines_(kLargestReport) {}

  Status listen(const ServerOptions& options) {
    beast::error_code error;
    const auto address = asio::ip::make_address(options.address, error);
    if (error) {
      return Status(NRT_FAILURE, format("address '{}': expected an IP address", options.address));
    }
    const Tcp::endpoint endpoint(address, options.port);
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
    if (error) {
      return Status(NRT_FAILURE, format("can't listen on {} port {}: {}", options.address,
                                        options.port, error.message()));
    }
    std::fprintf(stderr, "neuron-monitor-prometheus: http://%s:%d/metrics\n",
                 options.address.c_str(), static_cast<int>(acceptor_.local_endpoint().port()));
    return ok_status();
  }

  void accept() {
    acceptor_.async_accept([this](beast::error_code error, Tcp::socket socket) {
      if (!error && state_.connections < kMostConnections) {
        std::make_shared<Connection>(std::move(socket), state_)->read();
      }
      if (acceptor_.is_open()) {
        accept();
      }
    });
  }

  void read_report() {
    asio::async_read_until(input_, lines_, '\n', [this](beast::error_code error, size_t) {
      if (error) {
        end_ = error == asio::error::eof
                   ? ok_status()
                   : Status(NRT_FAILURE, format("standard input: {}", error.message()));
        context_.stop();
        return;
      }
      std::istream stream(&lines_);
      std::string line;
      std::getline(stream, line);
      const Status taken = state_.metrics.update(line, seconds_since_epoch());
      if (!taken.ok()) {
        std::fprintf(stderr, "neuron-monitor-prometheus: a report is left out: %s\n",
                     printable(taken.message()).c_str());
      }
      read_report();
    });
  }

  const Status& end() const { return end_; }

 private:
  asio::io_context& context_;
  Tcp::acceptor acceptor_;
  asio::posix::stream_descriptor input_;
  asio::streambuf lines_;
  State state_;
  Status end_;
};

}  // namespace

Status serve(const ServerOptions& options) {
  try {
    asio::io_context context(1);
    const int input = ::dup(options.input);  // the stream closes its own
    Server server(context, input);
    ONRT_RETURN_IF_ERROR(server.listen(options));
    asio::signal_set signals(context, SIGINT, SIGTERM);
    signals.async_wait([&](beast::error_code error, int) {
      if (!error) {
        context.stop();
      }
    });
    server.accept();
    server.read_report();
    context.run();
    return server.end();
  } catch (
      const std::exception& error) {  // Boost's: no descriptors, input that can't be waited for
    return Status(NRT_FAILURE, error.what());
  }
}

}  // namespace onrt::tools
