// SPDX-License-Identifier: Apache-2.0
// Ranks as processes, for tests: forked before any thread exists, each with a pipe for what it
// says.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "collectives/boot/boot.h"

namespace onrt::cc::testing {

// A folder of its own under the temporary one, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::vector<std::string> names(const std::string& below = "") const;

 private:
  std::string path_;
};

// A port of the loopback that nobody used a moment ago.
uint16_t free_port();

// Rank `rank` of `size` at 127.0.0.1:port, its folder `folder`/cc.
BootOptions options_for(int rank, int size, uint16_t port, const std::string& folder);

// Runs `body(rank)` in a process each; what it returns is what the rank said.
class Ranks {
 public:
  using Body = std::function<std::string(int rank)>;
  Ranks() = default;
  ~Ranks();  // kills what is left
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void start(int rank, const Body& body);
  void start_all(int count, const Body& body);
  // Sends a signal to a rank.
  void signal(int rank, int number);
  // Waits until the rank says a line by say(), or ends. "" after the time.
  std::string next_line(int rank, std::chrono::milliseconds patience = std::chrono::seconds(60));
  // All that a rank returned; "killed by signal 9" and so on for those that ended otherwise.
  std::string result(int rank, std::chrono::milliseconds patience = std::chrono::seconds(60));
  int pid(int rank) const;

  // In the body: tells the test something before the end.
  static void say(const std::string& line);

 private:
  struct Process {
    int pid = -1;
    int pipe = -1;
    std::string read;  // not handed out yet
    bool ended = false;
    int status = 0;
  };
  void read_some(Process& process, std::chrono::milliseconds patience);
  std::vector<Process> processes_;
};

}  // namespace onrt::cc::testing
