// SPDX-License-Identifier: Apache-2.0
#include "bench/torch_peer.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace onrt::bench {

std::unique_ptr<TorchPeer> TorchPeer::start(const std::string& python) {
  int requests[2];
  int answers[2];
  if (python.empty() || pipe(requests) != 0 || pipe(answers) != 0) {
    return nullptr;
  }
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(requests[0], STDIN_FILENO);
    dup2(answers[1], STDOUT_FILENO);
    close(requests[1]);
    close(answers[0]);
    execlp(python.c_str(), python.c_str(), ONRT_BENCH_SOURCE_DIR "/torch_peer.py", nullptr);
    perror(python.c_str());
    _exit(127);
  }
  close(requests[0]);
  close(answers[1]);
  std::unique_ptr<TorchPeer> peer(
      new TorchPeer(pid, fdopen(requests[1], "w"), fdopen(answers[0], "r")));
  peer->version_ = peer->read_line();
  if (pid < 0 || peer->version_.empty()) {
    fprintf(stderr, "no torch figures: %s did not start bench/torch_peer.py\n", python.c_str());
    return nullptr;
  }
  return peer;
}

TorchPeer::~TorchPeer() {
  fclose(to_);
  fclose(from_);
  waitpid(pid_, nullptr, 0);
}

std::string TorchPeer::read_line() {
  char line[256] = "";
  if (fgets(line, sizeof line, from_) == nullptr) {
    return "";
  }
  std::string text = line;
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  return text;
}

double TorchPeer::matmul(const std::string& dtype, long m, long n, long k, double least_seconds) {
  fprintf(to_, "mm %s %ld %ld %ld %g\n", dtype.c_str(), m, n, k, least_seconds);
  fflush(to_);
  return atof(read_line().c_str());
}

}  // namespace onrt::bench
