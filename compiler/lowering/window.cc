// SPDX-License-Identifier: Apache-2.0
#include "compiler/lowering/window.h"

namespace onrt::lowering {

int64_t element_count(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    count *= dim;
  }
  return count;
}

Dims dense_strides(std::span<const int64_t> dims) {
  Dims strides;
  strides.resize(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

Window dense_window(BufferId buffer, Dtype dtype, std::span<const int64_t> dims) {
  return {buffer, dtype, 0, Dims(dims), dense_strides(dims)};
}

bool is_dense(const Window& window) {
  int64_t stride = 1;
  for (size_t i = window.dims.size(); i-- > 0;) {
    if (window.dims[i] != 1 && window.strides[i] != stride) {
      return false;
    }
    stride *= window.dims[i];
  }
  return true;
}

Window permute(const Window& window, std::span<const int64_t> order) {
  Window made{window.buffer, window.dtype, window.offset, {}, {}};
  for (const int64_t dim : order) {
    made.dims.push_back(window.dims[static_cast<size_t>(dim)]);
    made.strides.push_back(window.strides[static_cast<size_t>(dim)]);
  }
  return made;
}

Window broadcast(const Window& window, std::span<const int64_t> dims,
                 std::span<const int64_t> dimensions) {
  Window made{window.buffer, window.dtype, window.offset, Dims(dims), {}};
  made.strides.resize(dims.size(), 0);
  for (size_t i = 0; i < dimensions.size(); ++i) {
    made.strides[static_cast<size_t>(dimensions[i])] = window.strides[i];
  }
  return made;
}

Window slice(const Window& window, std::span<const int64_t> slice) {
  Window made = window;
  for (size_t i = 0; i < window.dims.size(); ++i) {
    const int64_t start = slice[3 * i];
    const int64_t limit = slice[3 * i + 1];
    const int64_t stride = slice[3 * i + 2];
    made.offset += start * window.strides[i] * dtype_bytes(window.dtype);
    made.dims[i] = limit == start ? 0 : (limit - start - 1) / stride + 1;
    made.strides[i] = made.dims[i] < 2 ? window.strides[i] : window.strides[i] * stride;
  }
  return made;
}

Window reverse(const Window& window, std::span<const int64_t> dimensions) {
  Window made = window;
  for (const int64_t dim : dimensions) {
    const auto d = static_cast<size_t>(dim);
    made.offset += (window.dims[d] - 1) * window.strides[d] * dtype_bytes(window.dtype);
    made.strides[d] = -window.strides[d];
  }
  return made;
}

bool can_merge(const Window& window, size_t begin, size_t count) {
  int64_t expected = 0;
  bool first = true;
  for (size_t i = begin + count; i-- > begin;) {
    if (window.dims[i] == 1) {
      continue;
    }
    if (!first && window.strides[i] != expected) {
      return false;
    }
    first = false;
    expected = window.strides[i] * window.dims[i];
  }
  return true;
}

Window merge(const Window& window, std::span<const Run> runs) {
  Window made{window.buffer, window.dtype, window.offset, {}, {}};
  for (const Run& run : runs) {
    int64_t dim = 1;
    int64_t stride = 0;
    for (size_t i = run.begin + run.count; i-- > run.begin;) {
      stride = dim == 1 && window.dims[i] != 1 ? window.strides[i] : stride;
      dim *= window.dims[i];
    }
    made.dims.push_back(dim);
    made.strides.push_back(stride);
  }
  return made;
}

// Cuts the source's dimensions and the wanted ones into the shortest groups of equal element count;
// a group of the source must be mergeable, and its stride spreads over the wanted dimensions.
std::optional<Window> reshape(const Window& window, std::span<const int64_t> dims) {
  Window made{window.buffer, window.dtype, window.offset, Dims(dims), {}};
  made.strides.resize(dims.size(), 0);
  if (element_count(dims) == 0) {
    made.strides = dense_strides(dims);
    return made;
  }
  size_t from = 0;
  size_t to = 0;
  while (from < window.dims.size() || to < dims.size()) {
    const size_t from_begin = from;
    const size_t to_begin = to;
    int64_t from_count = from < window.dims.size() ? window.dims[from++] : 1;
    int64_t to_count = to < dims.size() ? dims[to++] : 1;
    while (from_count != to_count) {
      if (from_count < to_count) {
        from_count *= window.dims[from++];
      } else {
        to_count *= dims[to++];
      }
    }
    if (!can_merge(window, from_begin, from - from_begin)) {
      return std::nullopt;
    }
    const Run run{from_begin, from - from_begin};
    int64_t stride = merge(window, {&run, 1}).strides[0];
    for (size_t i = to; i-- > to_begin;) {
      made.strides[i] = stride;
      stride *= dims[i];
    }
  }
  return made;
}

std::vector<Run> common_runs(std::span<const Window* const> windows, std::span<const int64_t> dims,
                             size_t begin, size_t end, uint64_t fixed) {
  std::vector<Run> runs;
  const auto mergeable = [&](const Run& run) {
    return std::ranges::all_of(
        windows, [&](const Window* window) { return can_merge(*window, run.begin, run.count); });
  };
  bool open = false;  // the last run may grow
  for (size_t d = begin; d < end; ++d) {
    if (dims[d] == 1) {
      if (!runs.empty() && open) {
        ++runs.back().count;
      }
      continue;
    }
    const bool alone = (fixed >> d & 1) != 0;
    if (open && !alone) {
      const Run grown{runs.back().begin, d + 1 - runs.back().begin};
      if (mergeable(grown)) {
        runs.back() = grown;
        continue;
      }
    }
    runs.push_back({d, 1});
    open = !alone;
  }
  return runs;
}

}  // namespace onrt::lowering
