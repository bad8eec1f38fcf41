// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "emulator/isa/verify_parts.h"
#include "runtime/base/format.h"

namespace onrt::ncx {
namespace {

Status invalid(std::string message) { return Status(NRT_INVALID, std::move(message)); }

bool checked_multiply(int64_t a, int64_t b, int64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}

// An empty view points nowhere, but executors form its addresses before they see that it has no
// elements: those must not overflow either. No HBM is larger than this.
constexpr int64_t kMaxEmptyReach = int64_t{1} << 42;

}  // namespace

Result<Reach> reach_of(const View& view) {
  const int64_t width = dtype_bytes(view.dtype);
  if (view.offset > static_cast<uint64_t>(kMaxElements)) {
    return invalid(format("offset {} is beyond 2^62", view.offset));
  }
  Reach reach{static_cast<int64_t>(view.offset), static_cast<int64_t>(view.offset) + width};
  bool empty = false;
  for (int d = 0; d < view.rank; ++d) {
    if (view.dims[d] == 0) {
      empty = true;
      continue;
    }
    int64_t span = 0;
    if (!checked_multiply(view.dims[d] - 1, view.strides[d], &span) ||
        !checked_multiply(span, width, &span) ||
        __builtin_add_overflow(span < 0 ? reach.low : reach.high, span,
                               span < 0 ? &reach.low : &reach.high)) {
      return invalid(format("stride {} of dimension {} overflows", view.strides[d], d));
    }
  }
  if (empty && (reach.low < -kMaxEmptyReach || reach.high > kMaxEmptyReach)) {
    return invalid(format("an empty view spans bytes {} to {}", reach.low, reach.high));
  }
  return empty ? Reach{} : reach;
}

Status verify_dims(std::span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) {
      return invalid(format("dimension {} is negative", dim));
    }
    if (dim != 0 && (!checked_multiply(product, dim, &product) || product > kMaxElements)) {
      return invalid("more than 2^62 elements");
    }
  }
  return ok_status();
}

// Sorted by stride, each dimension must step over all that the smaller ones reach.
bool overlaps_itself(const View& view) {
  struct Dim {
    uint64_t stride;
    uint64_t last;
  };
  std::array<Dim, kMaxRank> dims;
  int count = 0;
  for (int d = 0; d < view.rank; ++d) {
    if (view.dims[d] == 0) {
      return false;
    }
    if (view.dims[d] > 1) {
      const int64_t stride = view.strides[d];
      const Dim dim{stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride),
                    static_cast<uint64_t>(view.dims[d] - 1)};
      int at = count++;
      for (; at > 0 && dims[at - 1].stride > dim.stride; --at) {
        dims[at] = dims[at - 1];
      }
      dims[at] = dim;
    }
  }
  uint64_t reached = 0;  // bounded by the view's space, which was checked
  for (int i = 0; i < count; ++i) {
    if (dims[i].stride <= reached) {
      return true;
    }
    reached += dims[i].stride * dims[i].last;
  }
  return false;
}

}  // namespace onrt::ncx
