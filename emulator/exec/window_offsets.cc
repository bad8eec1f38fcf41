// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/window_offsets.h"

#include <algorithm>
#include <cstring>

#include "emulator/exec/index_walk.h"

namespace onrt {
namespace {

// load(memory) gives an index as a signed 64-bit number.
template <class Load>
void offsets_by(const IndexShape& shape, const std::byte* vectors, int64_t step, int64_t next,
                size_t n, OutOfRange mode, int64_t* offsets, const Load& load) {
  std::fill_n(offsets, shape.start_strides.empty() ? n : 0, 0);
  for (size_t i = 0; i < shape.start_strides.size(); ++i) {
    const int64_t stride = shape.start_strides[i];
    const int64_t limit = shape.start_limits[i];
    const std::byte* at = vectors + static_cast<int64_t>(i) * next;
    if (mode == OutOfRange::kClamp) {
      for (size_t v = 0; v < n; ++v) {
        const int64_t index = load(at + static_cast<int64_t>(v) * step);
        offsets[v] = (i == 0 ? 0 : offsets[v]) + clamp_index(index, limit) * stride;
      }
    } else if (i == 0) {
      for (size_t v = 0; v < n; ++v) {
        const int64_t index = load(at + static_cast<int64_t>(v) * step);
        offsets[v] = index < 0 || index > limit ? kOutside : index * stride;
      }
    } else {
      for (size_t v = 0; v < n; ++v) {
        const int64_t index = load(at + static_cast<int64_t>(v) * step);
        const bool outside = index < 0 || index > limit || offsets[v] == kOutside;
        offsets[v] = outside ? kOutside : offsets[v] + index * stride;
      }
    }
  }
}

template <class T>
int64_t load_as(const std::byte* memory) {
  T value;
  std::memcpy(&value, memory, sizeof(value));
  return value;
}

}  // namespace

void window_offsets(const IndexShape& shape, Dtype dtype, const std::byte* vectors, int64_t step,
                    size_t n, OutOfRange mode, int64_t* offsets) {
  const int64_t width = dtype_bytes(dtype);
  const int64_t next = shape.vector_stride * width;
  const auto run = [&](const auto& load) {
    offsets_by(shape, vectors, step * width, next, n, mode, offsets, load);
  };
  switch (dtype) {
    case Dtype::kS32:
      return run(load_as<int32_t>);
    case Dtype::kU32:
      return run(load_as<uint32_t>);
    case Dtype::kS64:
      return run(load_as<int64_t>);
    default:
      return run([dtype](const std::byte* memory) { return load_index(dtype, memory); });
  }
}

}  // namespace onrt
