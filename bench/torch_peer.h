// SPDX-License-Identifier: Apache-2.0
// torch CPU as a peer: a child process that runs bench/torch_peer.py and measures on request, so
// that its rounds take turns with ours.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace onrt::bench {

class TorchPeer {
 public:
  // Null, with the reason on stderr, when `python` is empty or cannot import torch.
  static std::unique_ptr<TorchPeer> start(const std::string& python);
  ~TorchPeer();
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;

  const std::string& version() const { return version_; }
  // Seconds per torch.mm of [m, k] by [k, n], one thread.
  double matmul(const std::string& dtype, long m, long n, long k, double least_seconds);

 private:
  TorchPeer(int pid, FILE* to, FILE* from) : pid_(pid), to_(to), from_(from) {}
  std::string read_line();

  int pid_;
  FILE* to_;
  FILE* from_;
  std::string version_;
};

}  // namespace onrt::bench
