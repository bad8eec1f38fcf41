// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/index_walk.h"

#include <cstring>
#include <limits>

#include "emulator/isa/scalar_value.h"

namespace onrt {

int64_t load_index(Dtype dtype, const std::byte* memory) {
  switch (dtype) {
    case Dtype::kS32: {
      int32_t value = 0;
      std::memcpy(&value, memory, sizeof(value));
      return value;
    }
    case Dtype::kS64: {
      int64_t value = 0;
      std::memcpy(&value, memory, sizeof(value));
      return value;
    }
    default: {
      const auto value = static_cast<int64_t>(ncx::load_boxed(dtype, memory));
      return dtype == Dtype::kU64 && value < 0 ? std::numeric_limits<int64_t>::max() : value;
    }
  }
}

IndexLoop::IndexLoop(std::span<const int64_t> dims, int64_t start) : dims_(dims) {
  for (size_t d = dims.size(); d-- > 0 && start > 0;) {
    index_[d] = start % dims[d];
    start /= dims[d];
  }
}

void IndexLoop::advance() {
  for (size_t d = dims_.size(); d-- > 0;) {
    if (++index_[d] < dims_[d]) {
      return;
    }
    index_[d] = 0;
  }
}

int64_t count_of(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    count *= dim;
  }
  return count;
}

}  // namespace onrt
