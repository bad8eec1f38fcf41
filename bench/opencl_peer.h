// SPDX-License-Identifier: Apache-2.0
// The same addition as an OpenCL kernel, on the first CPU device (PoCL).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace onrt::bench {

class OpenClPeer {
 public:
  // Null, with the reason on stderr, when there is no OpenCL CPU device or the program was built
  // without OpenCL headers.
  static std::unique_ptr<OpenClPeer> start(int64_t elements);
  virtual ~OpenClPeer() = default;
  virtual const std::string& version() const = 0;
  // Enqueues the kernel and waits until it has finished.
  virtual void run() = 0;
};

}  // namespace onrt::bench
