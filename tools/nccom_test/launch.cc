// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom_test/launch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "runtime/base/format.h"
#include "runtime/base/unique_fd.h"
#include "tools/nccom_test/rank.h"

namespace onrt::tools::nccom {
namespace {

using Clock = std::chrono::steady_clock;

std::string error_text() { return std::error_code(errno, std::generic_category()).message(); }

Status system_failure(const char* call) {
  return Status(NRT_FAILURE, format("{}: {}", call, error_text()));
}

// "127.0.0.1:port" with a port that nobody uses now. Ranks meet there.
Result<std::string> free_address() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return system_failure("a port on 127.0.0.1");
  }
  return format("127.0.0.1:{}", ntohs(address.sin_port));
}

struct Child {
  pid_t pid = -1;
  UniqueFd pipe;
  std::vector<char> received;  // not yet a whole message
  bool ended = false;          // said so
};

class Launcher {
 public:
  Launcher(const Options& options, uint64_t seed) : options_(options), seed_(seed) {
    for (const std::vector<int>& group : options.series.groups) {
      members_ += group.size();
    }
  }
  ~Launcher() {
    for (Child& child : children_) {
      if (child.pid > 0) {
        ::kill(child.pid, SIGKILL);
        ::waitpid(child.pid, nullptr, 0);
      }
    }
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  Status start() {
    root_ = variable("NEURON_RT_ROOT_COMM_ID", "");
    if (root_.empty()) {
      ONRT_ASSIGN_OR_RETURN(root_, free_address());
    }
    std::string path = variable("TMPDIR", "/tmp") + "/nccom_test_log_XXXXXX.log";
    UniqueFd log(::mkostemps(path.data(), 4, O_CLOEXEC));
    if (!log.valid()) {
      return Status(NRT_FAILURE, format("{}: {}", path, error_text()));
    }
    outcome_.log_file = path;
    std::fflush(nullptr);  // not twice, by a child too
    for (int rank = 0; rank < options_.workers; ++rank) {
      ONRT_RETURN_IF_ERROR(start_rank(rank, log.get()));
    }
    return ok_status();
  }

  Outcome collect(const std::function<void(const Row&)>& show,
                  const std::function<void(size_t)>& progress) {
    const auto deadline =
        Clock::now() + std::chrono::seconds(options_.timeout_seconds) + std::chrono::seconds(5);
    while (outcome_.failure.empty() && !all_ended()) {
      if (!receive(deadline)) {
        outcome_.failure = format("no result for {} s (--timeout)", options_.timeout_seconds);
      }
      while (parts_.size() > outcome_.rows.size() &&
             parts_[outcome_.rows.size()].ranks == members_) {
        outcome_.rows.push_back(complete(parts_[outcome_.rows.size()]));
        show(outcome_.rows.back());
        if (progress) {
          progress(outcome_.rows.size());
        }
      }
    }
    if (!outcome_.failure.empty() && outcome_.rows.size() < options_.series.sizes.size()) {
      Row row = empty_row(outcome_.rows.size());
      row.failure = format("Failure running {} - log file {}", outcome_.failure, outcome_.log_file);
      outcome_.rows.push_back(row);
      show(row);
    }
    end_children();
    if (outcome_.failure.empty() && !options_.debug) {
      ::unlink(outcome_.log_file.c_str());
      outcome_.log_file.clear();
    }
    return std::move(outcome_);
  }

 private:
  // What ranks have said of a size.
  struct Part {
    size_t ranks = 0;
    Row row;
    std::vector<std::pair<int, uint64_t>> digests;
  };

  Status start_rank(int rank, int log) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      return system_failure("pipe");
    }
    UniqueFd mine(ends[0]);
    const UniqueFd theirs(ends[1]);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) {
      return system_failure("fork");
    }
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) {
        std::_Exit(1);  // the parent died in between
      }
      children_.clear();  // their pipes are not ours
      if (!options_.debug) {
        ::dup2(log, STDERR_FILENO);
      }
      const int code = run_rank(options_, root_, seed_, rank, theirs.get());
      std::fflush(nullptr);
      std::_Exit(code);
    }
    Child& child = children_.emplace_back();
    child.pid = pid;
    child.pipe = std::move(mine);
    return ok_status();
  }

  bool all_ended() const {
    return std::ranges::all_of(children_, [](const Child& child) { return child.ended; });
  }

  // Waits for words of the ranks; false at the deadline.
  bool receive(Clock::time_point deadline) {
    std::vector<pollfd> polled;
    std::vector<size_t> who;
    for (size_t i = 0; i < children_.size(); ++i) {
      if (!children_[i].ended) {
        polled.push_back({children_[i].pipe.get(), POLLIN, 0});
        who.push_back(i);
      }
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int ready = left <= 0 ? 0
                                : ::poll(polled.data(), polled.size(),
                                         static_cast<int>(std::min<long long>(left, 1'000'000)));
    for (size_t i = 0; i < polled.size() && ready > 0; ++i) {
      if (polled[i].revents != 0) {
        read_from(who[i]);
      }
    }
    return ready > 0 || (ready < 0 && errno == EINTR) || left > 0;
  }

  void read_from(size_t number) {
    Child& child = children_[number];
    char buffer[65536];
    const ssize_t n = ::read(child.pipe.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) {
      return;
    }
    if (n <= 0) {
      child.ended = true;
      fail(number, ended_text(child));
      return;
    }
    child.received.insert(child.received.end(), buffer, buffer + n);
    take_messages(number);
  }

  void take_messages(size_t number) {
    Child& child = children_[number];
    while (child.received.size() >= sizeof(RowMessage)) {
      RowMessage message;
      std::memcpy(&message, child.received.data(), sizeof(message));
      const size_t whole = sizeof(message) + message.times * sizeof(double);
      if (child.received.size() < whole) {
        return;
      }
      std::vector<double> times(message.times);
      std::memcpy(times.data(), child.received.data() + sizeof(message),
                  times.size() * sizeof(double));
      child.received.erase(child.received.begin(),
                           child.received.begin() + static_cast<std::ptrdiff_t>(whole));
      take(message, times);
    }
  }

  void take(const RowMessage& message, const std::vector<double>& times) {
    const auto rank = static_cast<size_t>(message.rank);
    if (message.failed != 0) {
      fail(rank, message.text);
      children_[rank].ended = true;
      return;
    }
    if (message.row == RowMessage::kEnd) {
      children_[rank].ended = true;
      return;
    }
    const auto number = static_cast<size_t>(message.row);
    if (parts_.size() <= number) {
      parts_.resize(number + 1);
    }
    Part& part = parts_[number];
    if (part.ranks++ == 0) {
      part.row = empty_row(number);
      part.row.algorithm = message.algorithm;
      part.row.transport = message.transport;
      part.row.why = message.why;
    }
    part.row.times.resize(std::max(part.row.times.size(), times.size()));
    for (size_t i = 0; i < times.size(); ++i) {
      part.row.times[i] = std::max(part.row.times[i], times[i]);
    }
    part.digests.emplace_back(message.rank, message.digest);
  }

  // The first that was said is the cause; others are often what came of it.
  void fail(size_t rank, const std::string& text) {
    if (outcome_.failure.empty()) {
      outcome_.failure = format("rank {}: {}", rank, text);
    }
  }

  std::string ended_text(Child& child) const {
    int status = 0;
    if (::waitpid(child.pid, &status, 0) == child.pid) {
      child.pid = -1;
    }
    return WIFSIGNALED(status) ? format("ended by signal {}", WTERMSIG(status))
                               : format("ended with code {}", WEXITSTATUS(status));
  }

  Row empty_row(size_t number) const {
    const Series& series = options_.series;
    const int ranks = static_cast<int>(series.groups.front().size());
    Row row;
    row.size = series.variable.empty() ? usable_size(series, series.sizes[number], ranks)
                                       : series.sizes[number];
    row.count = row.size / series.type.bytes;
    const Shape shape = shape_of(series.operation, row.count, ranks);
    row.input = shape.input * series.type.bytes;
    row.output = shape.output * series.type.bytes;
    return row;
  }

  // All ranks of a group must have the same result where the operation says so.
  Row complete(Part& part) {
    for (const std::vector<int>& group : options_.series.groups) {
      std::optional<std::pair<int, uint64_t>> first;
      for (const auto& digest : part.digests) {
        if (std::ranges::find(group, digest.first) == group.end()) {
          continue;
        }
        if (!first) {
          first = digest;
        } else if (digest.second != first->second && options_.series.check != Check::kNone) {
          outcome_.failure =
              format("ranks {} and {} have different results", first->first, digest.first);
          part.row.failure = "Failure: " + outcome_.failure;
        }
      }
    }
    return std::move(part.row);
  }

  void end_children() {
    const auto patience = Clock::now() + std::chrono::seconds(2);
    for (Child& child : children_) {
      while (child.pid > 0) {
        const pid_t gone = ::waitpid(child.pid, nullptr, WNOHANG);
        if (gone == child.pid || (gone < 0 && errno != EINTR)) {
          child.pid = -1;
        } else if (Clock::now() > patience) {
          ::kill(child.pid, SIGKILL);
          ::waitpid(child.pid, nullptr, 0);
          child.pid = -1;
        } else {
          ::usleep(1000);
        }
      }
    }
  }

  const Options& options_;
  const uint64_t seed_;
  size_t members_ = 0;  // ranks that are in a group
  std::string root_;
  std::vector<Child> children_;
  std::vector<Part> parts_;
  Outcome outcome_;
};

}  // namespace

Result<Outcome> run_series(const Options& options, uint64_t seed,
                           const std::function<void(const Row&)>& show,
                           const std::function<void(size_t)>& progress) {
  Launcher launcher(options, seed);
  ONRT_RETURN_IF_ERROR(launcher.start());
  return launcher.collect(show, progress);
}

}  // namespace onrt::tools::nccom
