// SPDX-License-Identifier: Apache-2.0
// What of a kernel follows a dimension of its domain, and how that dimension lies in memory: for
// cutting kernels into slices (tile.cc).
#pragma once

#include <vector>

#include "compiler/lowering/kernel.h"

namespace onrt::lowering {

// A window of a kernel and what of it follows the axis.
struct Access {
  Window* window = nullptr;
  int dim = -1;      // of the window; -1: the same elements for every slice
  int64_t rest = 1;  // elements of that dimension per index of the axis
  bool write = false;

  int64_t step() const {  // bytes between indices of the axis
    return window->strides[static_cast<size_t>(dim)] * rest * dtype_bytes(window->dtype);
  }
};

const Dims& domain_of(const Kernel& kernel);

// All windows of a kernel, with what follows axis `axis` of its domain. Nothing: it can't be cut.
std::vector<Access> accesses_of(Kernel& kernel, size_t axis);

// How the axis lies in a buffer: `count` indices, `step` bytes apart.
struct Axis {
  int64_t step = 0;
  int64_t count = 0;

  int64_t period() const { return step * count; }
};

// True if the indices of the axis can be read off the addresses of the window's elements, and those
// of index i are those of slice i.
bool lies_along(const Access& access, const Axis& axis);

}  // namespace onrt::lowering
