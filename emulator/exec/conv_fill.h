// SPDX-License-Identifier: Apache-2.0
// The implicit matrix of a convolution's input: a row per position of the output (a line), a column
// per term (k: kernel position, then feature). Parts of it are read straight into the buffers that
// the sweeps of gemm/kernels.h multiply; the matrix itself never exists.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "emulator/exec/conv_geometry.h"
#include "emulator/exec/gemm/kernels.h"

namespace onrt {

inline constexpr int64_t kMostConvLines = 512;

// One group and phase. Offsets are kept modulo 2^64: those of elements outside the input are
// computed, too, but never used.
struct ConvMatrix {
  // A loop over outputs, from the outermost to the innermost.
  struct Loop {
    int64_t size = 1;
    int axis = -1;        // -1: the batch
    uint64_t offset = 0;  // elements of the input from one step to the next
  };
  struct Axis {
    ConvAxisPhase phase;
    int64_t in_stride = 0;
  };
  std::array<Loop, kMaxConvAxes + 1> loops;
  size_t loop_count = 0;
  std::array<Axis, kMaxConvAxes> axes;
  size_t axis_count = 0;
  int64_t features = 0;
  int64_t feature_stride = 0;
  uint8_t dtype = 0;
  size_t sum = 0;            // gemm_detail::Sum as index
  size_t element_bytes = 4;  // of a sum

  int64_t lines() const;
  int64_t terms() const;
};

// The kernel position after `index`, row-major; all zeros after the last one.
void next_position(const ConvMatrix& matrix, std::array<int64_t, kMaxConvAxes>& index);

// Immutable; thread-safe.
class ConvFill {
 public:
  // `data`: element 0 of the group. All outlive the object.
  ConvFill(const ConvMatrix& matrix, const void* data, const gemm_detail::Kernels& kernels);

  // Term k + j of line `line` + i to to[i * width + j], j < depth <= ncx::kDotBlock.
  void along(int64_t line, int64_t lines, int64_t k, int64_t depth, int64_t width, void* to) const;

  // Panels of `width` lines, element (j, i) at [i / width][j][i % width]; the last panel is filled
  // with zeros. At most kMostConvLines lines. `row` is room for `lines` rounded up to whole panels.
  void across(int64_t line, int64_t lines, int64_t k, int64_t depth, int64_t width, void* to,
              void* row) const;

 private:
  struct Segment;
  struct Run;
  using Coordinates = std::array<int64_t, kMaxConvAxes>;

  size_t make_segments(int64_t k, int64_t depth, bool merge, Segment* segments) const;
  void read_segment(const Segment& segment, const Coordinates& at, uint64_t offset,
                    std::byte* to) const;
  void along_positions(const Coordinates& at, uint64_t offset, int64_t k, int64_t depth,
                       std::byte* to) const;
  size_t make_runs(const Segment& segment, int64_t line, int64_t lines, Run* runs) const;
  void fill_row(std::span<const Run> runs, uint64_t feature_offset, std::byte* row) const;
  uint64_t locate(int64_t line, Coordinates& at) const;
  bool inside(const Segment& segment, const Coordinates& at, size_t axes) const;
  void read(uint64_t offset, int64_t stride, int64_t n, std::byte* to) const;

  const ConvMatrix& m_;
  gemm_detail::Source source_;
  const gemm_detail::Kernels& kernels_;
  bool plain_;            // elements of the input are what the sums are made of
  bool positions_run_;    // few features: terms are read along the innermost axis
  bool positions_merge_;  // the features of the innermost axis' next position follow
};

}  // namespace onrt
