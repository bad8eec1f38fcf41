// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/conv_fill.h"

#include <algorithm>
#include <cstring>

#include "emulator/isa/reduce_order.h"
#include "runtime/base/dtype.h"

namespace onrt {
namespace {

constexpr int64_t kMostGrouped = 16;  // features that are hardly worth a segment

// Groups of `bytes` that lie `step` bytes apart, one after the other.
template <size_t kBytes>
void gather_groups(const std::byte* from, int64_t step, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * static_cast<int64_t>(kBytes), from + i * step, kBytes);
  }
}
void gather_groups(const std::byte* from, int64_t step, int64_t count, int64_t bytes,
                   std::byte* to) {
  switch (bytes) {
    case 8:
      return gather_groups<8>(from, step, count, to);
    case 16:
      return gather_groups<16>(from, step, count, to);
    case 32:
      return gather_groups<32>(from, step, count, to);
    case 64:
      return gather_groups<64>(from, step, count, to);
    default:
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(to + i * bytes, from + i * step, static_cast<size_t>(bytes));
      }
  }
}

// Whole registers if it can.
void copy_lines(const std::byte* from, int64_t bytes, std::byte* to) {
  if (bytes == 64) {
    std::memcpy(to, from, 64);
  } else {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

}  // namespace

// Terms of one kernel position, or of neighbouring ones along the innermost axis.
struct ConvFill::Segment {
  Coordinates coordinate;  // of the first position, before the line's own
  int64_t last = 0;        // coordinate of the last position along the innermost axis
  uint64_t offset = 0;     // of the first term
  int64_t first_feature = 0;
  int64_t count = 0;  // terms
};

// Neighbouring lines along the innermost loop; [low, high) of them are inside the input.
struct ConvFill::Run {
  int64_t count = 0;
  int64_t low = 0;
  int64_t high = 0;
  uint64_t offset = 0;  // of line 0 of the run, feature 0
};

void next_position(const ConvMatrix& matrix, std::array<int64_t, kMaxConvAxes>& index) {
  for (size_t d = matrix.axis_count; d > 0; --d) {
    if (++index[d - 1] < matrix.axes[d - 1].phase.size) {
      return;
    }
    index[d - 1] = 0;
  }
}

int64_t ConvMatrix::lines() const {
  int64_t count = 1;
  for (size_t i = 0; i < loop_count; ++i) {
    count *= loops[i].size;
  }
  return count;
}

int64_t ConvMatrix::terms() const {
  int64_t count = features;
  for (size_t i = 0; i < axis_count; ++i) {
    count *= axes[i].phase.size;
  }
  return count;
}

ConvFill::ConvFill(const ConvMatrix& matrix, const void* data, const gemm_detail::Kernels& kernels)
    : m_(matrix), source_{data, matrix.dtype, 0, 0}, kernels_(kernels) {
  const auto dtype = static_cast<Dtype>(m_.dtype);
  plain_ = dtype_bytes(dtype) == m_.element_bytes && dtype != Dtype::kF64;
  positions_merge_ = false;
  positions_run_ = false;
  if (m_.axis_count > 0) {
    const ConvMatrix::Axis& last = m_.axes[m_.axis_count - 1];
    const bool near = last.phase.dilation < (int64_t{1} << 20);
    positions_merge_ =
        near &&
        static_cast<uint64_t>(last.phase.dilation) * static_cast<uint64_t>(last.in_stride) ==
            static_cast<uint64_t>(m_.features) * static_cast<uint64_t>(m_.feature_stride);
    const bool group = plain_ && m_.feature_stride == 1 && m_.features <= kMostGrouped;
    positions_run_ =
        near && !positions_merge_ && last.phase.size > 1 && (m_.features == 1 || group);
  }
}

void ConvFill::read(uint64_t offset, int64_t stride, int64_t n, std::byte* to) const {
  if (plain_ && (stride == 1 || n == 1)) {
    std::memcpy(to,
                static_cast<const std::byte*>(source_.data) +
                    static_cast<int64_t>(offset) * static_cast<int64_t>(m_.element_bytes),
                static_cast<size_t>(n) * m_.element_bytes);
  } else {
    kernels_.read[m_.sum](source_, static_cast<int64_t>(offset), stride, n, to);
  }
}

size_t ConvFill::make_segments(int64_t k, int64_t depth, bool merge, Segment* segments) const {
  if (depth == 0) {
    return 0;  // perhaps an axis without positions
  }
  std::array<int64_t, kMaxConvAxes> index{};
  int64_t position = k / m_.features;
  int64_t feature = k - position * m_.features;
  for (size_t d = m_.axis_count; d-- > 0;) {
    index[d] = position % m_.axes[d].phase.size;
    position /= m_.axes[d].phase.size;
  }
  size_t count = 0;
  for (int64_t left = depth; left > 0;) {
    Segment made;
    for (size_t d = 0; d < m_.axis_count; ++d) {
      const ConvMatrix::Axis& axis = m_.axes[d];
      made.coordinate[d] = index[d] * axis.phase.dilation - axis.phase.low;
      made.offset +=
          static_cast<uint64_t>(made.coordinate[d]) * static_cast<uint64_t>(axis.in_stride);
    }
    made.first_feature = feature;
    made.count = std::min(left, m_.features - feature);
    made.last = m_.axis_count == 0 ? 0 : made.coordinate[m_.axis_count - 1];
    made.offset += static_cast<uint64_t>(feature) * static_cast<uint64_t>(m_.feature_stride);
    left -= made.count;
    feature = 0;
    const bool follows = merge && count > 0 && positions_merge_ && index[m_.axis_count - 1] > 0;
    if (follows) {
      segments[count - 1].count += made.count;
      segments[count - 1].last = made.last;
    } else {
      segments[count++] = made;
    }
    next_position(m_, index);
  }
  return count;
}

// The coordinates and offset that a line adds to those of its terms.
uint64_t ConvFill::locate(int64_t line, Coordinates& at) const {
  uint64_t offset = 0;
  for (size_t i = m_.loop_count; i-- > 0;) {
    const ConvMatrix::Loop& loop = m_.loops[i];
    const int64_t index = line % loop.size;
    line /= loop.size;
    offset += static_cast<uint64_t>(index) * loop.offset;
    if (loop.axis >= 0) {
      const auto axis = static_cast<size_t>(loop.axis);
      at[axis] = index * m_.axes[axis].phase.stride;
    }
  }
  return offset;
}

bool ConvFill::inside(const Segment& segment, const Coordinates& at, size_t axes) const {
  bool in = true;
  for (size_t d = 0; d < axes; ++d) {
    const int64_t c = segment.coordinate[d] + at[d];
    in = in && c >= 0 && c < m_.axes[d].phase.in;
  }
  return in;
}

void ConvFill::read_segment(const Segment& segment, const Coordinates& at, uint64_t offset,
                            std::byte* to) const {
  const size_t axes = m_.axis_count;
  const auto width = static_cast<int64_t>(m_.element_bytes);
  const auto zero = [&](int64_t n, std::byte* where) {
    std::memset(where, 0, static_cast<size_t>(n * width));
  };
  if (axes == 0) {
    read(offset + segment.offset, m_.feature_stride, segment.count, to);
    return;
  }
  if (!inside(segment, at, axes - 1)) {
    zero(segment.count, to);
    return;
  }
  const ConvMatrix::Axis& axis = m_.axes[axes - 1];
  const int64_t first = segment.coordinate[axes - 1] + at[axes - 1];
  const int64_t last = segment.last + at[axes - 1];
  if (first >= 0 && last < axis.phase.in) {
    read(offset + segment.offset, m_.feature_stride, segment.count, to);
    return;
  }
  // The edge of the input crosses the segment, whose positions [low, high) are inside. A segment of
  // several positions reads elements at equal distances.
  const int64_t dilation = axis.phase.dilation;
  const int64_t own = std::min(segment.count, m_.features - segment.first_feature);
  const auto before = [&](int64_t position) {
    return position == 0 ? 0 : std::min(segment.count, own + (position - 1) * m_.features);
  };
  const int64_t low = before(first >= 0 ? 0 : (-first + dilation - 1) / dilation);
  const int64_t high = std::max(
      low, first >= axis.phase.in ? 0 : before((axis.phase.in - 1 - first) / dilation + 1));
  zero(low, to);
  if (high > low) {
    read(offset + segment.offset +
             static_cast<uint64_t>(low) * static_cast<uint64_t>(m_.feature_stride),
         m_.feature_stride, high - low, to + low * width);
  }
  zero(segment.count - high, to + high * width);
}

// One line of an input with few features, read along the innermost axis; k and depth in positions.
void ConvFill::along_positions(const Coordinates& at, uint64_t offset, int64_t k, int64_t depth,
                               std::byte* to) const {
  const size_t inner = m_.axis_count - 1;
  const ConvMatrix::Axis& last = m_.axes[inner];
  const int64_t dilation = last.phase.dilation;
  const auto bytes = m_.features * static_cast<int64_t>(m_.element_bytes);  // of a position
  for (int64_t p = k; p < k + depth;) {
    Segment segment;
    int64_t rest = p / last.phase.size;
    const int64_t index = p % last.phase.size;
    segment.offset = offset;
    for (size_t d = inner; d-- > 0;) {
      const ConvMatrix::Axis& axis = m_.axes[d];
      segment.coordinate[d] = rest % axis.phase.size * axis.phase.dilation - axis.phase.low;
      rest /= axis.phase.size;
      segment.offset +=
          static_cast<uint64_t>(segment.coordinate[d]) * static_cast<uint64_t>(axis.in_stride);
    }
    const int64_t count = std::min(last.phase.size - index, k + depth - p);
    const int64_t first = index * dilation - last.phase.low;  // without the line's own
    const int64_t c = first + at[inner];
    const bool outside = !inside(segment, at, inner) || c >= last.phase.in;
    const int64_t low = c >= 0 ? 0 : std::min(count, (-c + dilation - 1) / dilation);
    const int64_t high =
        outside ? low : std::max(low, std::min(count, (last.phase.in - 1 - c) / dilation + 1));
    std::byte* run = to + (p - k) * bytes;
    std::memset(run, 0, static_cast<size_t>(low * bytes));
    std::memset(run + high * bytes, 0, static_cast<size_t>((count - high) * bytes));
    if (high > low) {
      const auto step = static_cast<uint64_t>(last.in_stride);
      const uint64_t from = segment.offset + static_cast<uint64_t>(first + low * dilation) * step;
      const auto next = static_cast<int64_t>(static_cast<uint64_t>(dilation) * step);
      if (m_.features == 1) {
        read(from, next, high - low, run + low * bytes);
      } else {
        const auto width = static_cast<int64_t>(m_.element_bytes);
        gather_groups(
            static_cast<const std::byte*>(source_.data) + static_cast<int64_t>(from) * width,
            next * width, high - low, bytes, run + low * bytes);
      }
    }
    p += count;
  }
}

void ConvFill::along(int64_t line, int64_t lines, int64_t k, int64_t depth, int64_t width,
                     void* to) const {
  std::array<Segment, ncx::kDotBlock> segments;
  const bool positions = positions_run_ && k % m_.features == 0 && depth % m_.features == 0;
  const size_t count = positions ? 0 : make_segments(k, depth, true, segments.data());
  const auto bytes = static_cast<int64_t>(m_.element_bytes);
  auto* row = static_cast<std::byte*>(to);
  for (int64_t i = 0; i < lines; ++i, row += width * bytes) {
    Coordinates at{};
    const uint64_t offset = locate(line + i, at);
    if (positions && depth > 0) {
      along_positions(at, offset, k / m_.features, depth / m_.features, row);
    }
    std::byte* next = row;
    for (size_t s = 0; s < count; ++s) {
      read_segment(segments[s], at, offset, next);
      next += segments[s].count * bytes;
    }
  }
}

// The lines in runs along the innermost loop.
size_t ConvFill::make_runs(const Segment& segment, int64_t line, int64_t lines, Run* runs) const {
  const ConvMatrix::Loop& inner = m_.loops[m_.loop_count - 1];
  size_t count = 0;
  while (lines > 0) {
    Run& run = runs[count++];
    Coordinates at{};
    run.offset = locate(line, at) + segment.offset;
    run.count = std::min(lines, inner.size - line % inner.size);
    run.low = 0;
    run.high = run.count;
    for (size_t d = 0; d < m_.axis_count; ++d) {
      const ConvAxisPhase& axis = m_.axes[d].phase;
      const int64_t first = segment.coordinate[d] + at[d];
      if (inner.axis != static_cast<int>(d)) {
        run.high = first >= 0 && first < axis.in ? run.high : 0;
        continue;
      }
      run.low = first >= 0 ? 0 : std::min(run.count, (-first + axis.stride - 1) / axis.stride);
      const int64_t end = first >= axis.in ? 0 : (axis.in - 1 - first) / axis.stride + 1;
      run.high = std::min(run.high, end);
    }
    run.high = std::max(run.high, run.low);
    line += run.count;
    lines -= run.count;
  }
  return count;
}

// One step of k for all lines of the runs.
void ConvFill::fill_row(std::span<const Run> runs, uint64_t feature_offset, std::byte* row) const {
  const ConvMatrix::Loop& inner = m_.loops[m_.loop_count - 1];
  const auto bytes = static_cast<int64_t>(m_.element_bytes);
  for (const Run& run : runs) {
    for (int64_t i = 0; i < run.low * bytes; ++i) {
      row[i] = std::byte{0};
    }
    if (run.high > run.low) {
      read(run.offset + feature_offset + static_cast<uint64_t>(run.low) * inner.offset,
           static_cast<int64_t>(inner.offset), run.high - run.low, row + run.low * bytes);
    }
    for (int64_t i = run.high * bytes; i < run.count * bytes; ++i) {
      row[i] = std::byte{0};
    }
    row += run.count * bytes;
  }
}

void ConvFill::across(int64_t line, int64_t lines, int64_t k, int64_t depth, int64_t width,
                      void* to, void* row) const {
  const auto bytes = static_cast<int64_t>(m_.element_bytes);
  const int64_t panels = (lines + width - 1) / width;
  auto* values = static_cast<std::byte*>(row);
  std::memset(values + lines * bytes, 0, static_cast<size_t>((panels * width - lines) * bytes));
  std::array<Segment, ncx::kDotBlock> segments;
  const size_t count = make_segments(k, depth, false, segments.data());
  std::array<Run, kMostConvLines> runs;
  auto* step = static_cast<std::byte*>(to);  // [0][step][0]
  for (size_t s = 0; s < count; ++s) {
    const size_t n = make_runs(segments[s], line, lines, runs.data());
    for (int64_t f = 0; f < segments[s].count; ++f, step += width * bytes) {
      fill_row({runs.data(), n},
               static_cast<uint64_t>(f) * static_cast<uint64_t>(m_.feature_stride), values);
      for (int64_t panel = 0; panel < panels; ++panel) {
        copy_lines(values + panel * width * bytes, width * bytes,
                   step + panel * depth * width * bytes);
      }
    }
  }
}

}  // namespace onrt
