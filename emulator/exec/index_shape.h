// SPDX-License-Identifier: Apache-2.0
// What gather and scatter have in common, resolved at load: which loops run over index vectors,
// which inside a window, and how far each step goes in each array.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/isa/program.h"

namespace onrt {

// Dimension numbers of a gather (or scatter) under common names.
struct IndexNumbers {
  const ncx::View& whole;  // gather: operand; scatter: the array that is updated
  const ncx::View& indices;
  const ncx::View& result;                // gather: output; scatter: updates
  std::span<const int64_t> window_dims;   // of result
  std::span<const int64_t> removed_dims;  // collapsed or inserted
  std::span<const int64_t> index_map;
  std::span<const int64_t> whole_batch;
  std::span<const int64_t> indices_batch;
  int64_t vector_dim;
};

struct IndexShape {
  explicit IndexShape(const IndexNumbers& numbers);

  // Loops over the index vectors (the batch dims of the result), row-major.
  std::vector<int64_t> batch_dims;
  std::vector<int64_t> batch_result_strides;  // elements
  std::vector<int64_t> batch_indices_strides;
  std::vector<int64_t> batch_whole_strides;  // of batching dims; 0 otherwise
  // Loops inside a window.
  std::vector<int64_t> window_sizes;
  std::vector<int64_t> window_result_strides;
  std::vector<int64_t> window_whole_strides;
  // Elements of an index vector.
  int64_t vector_stride = 0;           // in indices
  std::vector<int64_t> start_strides;  // in whole, by position in the vector
  std::vector<int64_t> start_limits;   // largest start: dim - window size
};

}  // namespace onrt
