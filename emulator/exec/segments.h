// SPDX-License-Identifier: Apache-2.0
// What cursors over loop nests have in common: moving the segments of a view between memory and a
// dense buffer of registers. `each(segment)` calls segment(offset, position, count) for runs of
// elements that lie `stride` elements apart: `offset` in elements from the view's base, `position`
// in the buffer.
#pragma once

#include <cstdint>

#include "emulator/exec/kernels/kernels.h"

namespace onrt {

template <class Each>
void load_segments(const KernelTable& kernels, Dtype dtype, const std::byte* base, int64_t stride,
                   void* out, const Each& each) {
  const int64_t width = dtype_bytes(dtype);
  const auto reg = static_cast<int64_t>(register_bytes(ncx::register_class(dtype)));
  const auto index = static_cast<size_t>(dtype);
  const MoveKernel move = stride == 1 ? kernels.load[index] : kernels.load_strided[index];
  each([&](int64_t at, int64_t position, int64_t count) {
    move(static_cast<std::byte*>(out) + position * reg, base + at * width, stride,
         static_cast<size_t>(count));
  });
}

template <class Each>
void store_segments(const KernelTable& kernels, Dtype dtype, std::byte* base, int64_t stride,
                    const void* in, const Each& each) {
  const int64_t width = dtype_bytes(dtype);
  const auto reg = static_cast<int64_t>(register_bytes(ncx::register_class(dtype)));
  const auto index = static_cast<size_t>(dtype);
  const MoveKernel move = stride == 1 ? kernels.store[index] : kernels.store_strided[index];
  each([&](int64_t at, int64_t position, int64_t count) {
    move(base + at * width, static_cast<const std::byte*>(in) + position * reg, stride,
         static_cast<size_t>(count));
  });
}

// The offsets themselves: of a pseudo-view whose strides are the values of an iota.
template <class Each>
void count_segments(int64_t stride, int64_t* out, const Each& each) {
  each([&](int64_t at, int64_t position, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      out[position + i] = at + i * stride;
    }
  });
}

}  // namespace onrt
