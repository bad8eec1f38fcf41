// SPDX-License-Identifier: Apache-2.0
// Dense row-major arrays, and loops over their indices: the interpreter's only data structure.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "emulator/isa/scalar_value.h"
#include "runtime/base/dtype.h"

namespace onrt::reference {

using Index = std::vector<int64_t>;

struct Tensor {
  Dtype dtype = Dtype::kF32;
  Index dims;
  std::vector<std::byte> data;

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t dim : dims) {
      count *= dim;
    }
    return count;
  }

  std::byte* at(int64_t i) { return data.data() + static_cast<size_t>(i) * dtype_bytes(dtype); }
  const std::byte* at(int64_t i) const {
    return data.data() + static_cast<size_t>(i) * dtype_bytes(dtype);
  }

  ncx::Boxed get(int64_t i) const { return ncx::load_boxed(dtype, at(i)); }
  void set(int64_t i, ncx::Boxed value) { ncx::store_boxed(dtype, value, at(i)); }
  // Integers as they are.
  int64_t integer(int64_t i) const { return static_cast<int64_t>(get(i)); }
  // The bits of one element; `from` has the same element width.
  void copy_element(int64_t to, const Tensor& from, int64_t i) {
    std::memcpy(at(to), from.at(i), dtype_bytes(dtype));
  }

  int64_t position(const Index& index) const {
    int64_t at = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      at = at * dims[d] + index[d];
    }
    return at;
  }
  bool contains(const Index& index) const {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (index[d] < 0 || index[d] >= dims[d]) {
        return false;
      }
    }
    return true;
  }
};

// Calls visit(index, position) in row-major order.
template <class Visit>
void for_each_index(std::span<const int64_t> dims, Visit visit) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    count *= dim;
  }
  Index index(dims.size(), 0);
  for (int64_t position = 0; position < count; ++position) {
    visit(static_cast<const Index&>(index), position);
    for (size_t d = dims.size(); d-- > 0 && ++index[d] == dims[d];) {
      index[d] = 0;
    }
  }
}

}  // namespace onrt::reference
