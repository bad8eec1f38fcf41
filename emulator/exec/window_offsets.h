// SPDX-License-Identifier: Apache-2.0
// Where the windows of many index vectors lie: the first half of gathers and scatters whose windows
// are single elements, so that neither half looks up types for every vector.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/exec/index_shape.h"

namespace onrt {

enum class OutOfRange : uint8_t {
  kClamp,  // gather
  kSkip,   // scatter: the offset is kOutside
};

inline constexpr int64_t kOutside = INT64_MIN;

// offsets[v] = elements from the array's element 0 to the window of vector v, for v < n. Vector v
// starts `step` * v elements after `vectors`.
void window_offsets(const IndexShape& shape, Dtype dtype, const std::byte* vectors, int64_t step,
                    size_t n, OutOfRange mode, int64_t* offsets);

}  // namespace onrt
