// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/testing.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cc::testing {
namespace {

using Clock = std::chrono::steady_clock;
int said_to = -1;  // in a rank: its pipe

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "onrt-boot-XXXXXX").string();
  path_ = ::mkdtemp(name.data()) == nullptr ? "" : name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> TemporaryFolder::names(const std::string& below) const {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_ + "/" + below, error)) {
    out.push_back(entry.path().filename().string());
  }
  return out;
}

uint16_t free_port() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 0;
  }
  return ntohs(address.sin_port);
}

BootOptions options_for(int rank, int size, uint16_t port, const std::string& folder) {
  BootOptions options;
  options.rank = rank;
  options.size = size;
  options.root = {"127.0.0.1", port};
  options.directory = folder + "/cc";
  options.join_timeout = std::chrono::seconds(50);
  return options;
}

Ranks::~Ranks() {
  for (Process& process : processes_) {
    if (process.pid > 0 && !process.ended) {
      ::kill(process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, 0);
    }
    if (process.pipe >= 0) {
      ::close(process.pipe);
    }
  }
}

void Ranks::start(int rank, const Body& body) {
  int ends[2];
  if (::pipe(ends) != 0) {
    std::perror("pipe");
    std::abort();
  }
  std::fflush(nullptr);
  const int pid = ::fork();
  if (pid == 0) {
    for (const Process& process : processes_) {
      ::close(process.pipe);
    }
    ::close(ends[0]);
    said_to = ends[1];
    write_fully(ends[1], body(rank) + "\n");
    ::_exit(0);
  }
  ::close(ends[1]);
  if (processes_.size() <= static_cast<size_t>(rank)) {
    processes_.resize(static_cast<size_t>(rank) + 1);
  }
  Process& process = processes_[static_cast<size_t>(rank)];
  process.pid = pid;
  process.pipe = ends[0];
}

void Ranks::start_all(int count, const Body& body) {
  for (int rank = 0; rank < count; ++rank) {
    start(rank, body);
  }
}

void Ranks::signal(int rank, int number) { ::kill(pid(rank), number); }

int Ranks::pid(int rank) const { return processes_[static_cast<size_t>(rank)].pid; }

void Ranks::say(const std::string& line) { write_fully(said_to, line + "\n"); }

void Ranks::read_some(Process& process, std::chrono::milliseconds patience) {
  pollfd entry{process.pipe, POLLIN, 0};
  if (::poll(&entry, 1, static_cast<int>(patience.count())) <= 0) {
    return;
  }
  char buffer[4096];
  const ssize_t got = ::read(process.pipe, buffer, sizeof(buffer));
  if (got > 0) {
    process.read.append(buffer, static_cast<size_t>(got));
    return;
  }
  ::waitpid(process.pid, &process.status, 0);
  process.ended = true;
}

std::string Ranks::next_line(int rank, std::chrono::milliseconds patience) {
  Process& process = processes_[static_cast<size_t>(rank)];
  const auto until = Clock::now() + patience;
  while (true) {
    const size_t end = process.read.find('\n');
    if (end != std::string::npos) {
      const std::string line = process.read.substr(0, end);
      process.read.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (process.ended || left.count() <= 0) {
      return "";
    }
    read_some(process, left);
  }
}

std::string Ranks::result(int rank, std::chrono::milliseconds patience) {
  Process& process = processes_[static_cast<size_t>(rank)];
  const auto until = Clock::now() + patience;
  while (!process.ended) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) {
      return "still running; said: " + process.read;
    }
    read_some(process, left);
  }
  if (WIFSIGNALED(process.status)) {
    return format("killed by signal {}", WTERMSIG(process.status));
  }
  std::string said = process.read;
  if (said.ends_with('\n')) {
    said.pop_back();
  }
  return said;
}

}  // namespace onrt::cc::testing
