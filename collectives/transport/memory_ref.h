// SPDX-License-Identifier: Apache-2.0
// How ranks tell each other where a buffer lies.
#pragma once

#include <cstddef>
#include <cstdint>

namespace onrt::cc {

// A place in one of the files that its rank has offered; file < 0: private memory.
struct MemoryRef {
  int32_t file = -1;
  uint64_t offset = 0;
  bool shared() const { return file >= 0; }
};

// A caller's buffer in this process. `data` may be null when `bytes` is 0.
struct LocalBuffer {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  MemoryRef ref;
};

}  // namespace onrt::cc
