// SPDX-License-Identifier: Apache-2.0
// The attributes of HLO convolution, read by name.
#pragma once

#include <cstdint>
#include <span>

#include "compiler/hir/attribute.h"
#include "compiler/lowering/window.h"

namespace onrt::hir {

// Dimension numbers of one array: of the batch (kernel: input feature), of the feature (kernel:
// output feature), of the spatial axes.
struct ConvolutionDims {
  int64_t first = 0;
  int64_t second = 0;
  std::span<const int64_t> spatial;
};

struct WindowAxis {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t low = 0;
  int64_t high = 0;
  int64_t dilation = 1;
  int64_t base_dilation = 1;
  bool reversed = false;

  // Size of the dilated window, and of the dilated and padded input. Sizes are below 2^31.
  int64_t reach() const { return size == 0 ? 0 : (size - 1) * dilation + 1; }
  int64_t padded(int64_t in) const {
    return low + high + (in == 0 ? 0 : (in - 1) * base_dilation + 1);
  }
  // Positions of the window along an input of this size.
  int64_t positions(int64_t in) const {
    return padded(in) < reach() ? 0 : (padded(in) - reach()) / stride + 1;
  }
};

// Reads attributes that infer_convolution() has accepted.
class Convolution {
 public:
  explicit Convolution(std::span<const Attribute> attributes)
      : dims_(find(attributes, AttributeKey::kConvDims)->ints),
        window_(find(attributes, AttributeKey::kWindow)->ints),
        groups_(find(attributes, AttributeKey::kGroups)->ints) {}

  size_t axes() const { return window_.size() / 7; }
  ConvolutionDims input() const { return dims(0); }
  ConvolutionDims kernel() const { return dims(1); }
  ConvolutionDims output() const { return dims(2); }
  int64_t feature_groups() const { return groups_[0]; }
  int64_t batch_groups() const { return groups_[1]; }
  int64_t groups() const { return groups_[0] * groups_[1]; }  // one of them is 1
  WindowAxis axis(size_t i) const {
    const int64_t* v = window_.data() + 7 * i;
    return {v[0], v[1], v[2], v[3], v[4], v[5], v[6] != 0};
  }

 private:
  ConvolutionDims dims(size_t array) const {
    const auto part = dims_.subspan(array * (axes() + 2), axes() + 2);
    return {part[0], part[1], part.subspan(2)};
  }

  std::span<const int64_t> dims_;
  std::span<const int64_t> window_;
  std::span<const int64_t> groups_;
};

}  // namespace onrt::hir

namespace onrt::lowering {

// A window with the dimensions of the result, as a Conv instruction sees it: [group, batch,
// feature, spatial..].
Window conv_output_window(const Window& window, const hir::Convolution& conv);

}  // namespace onrt::lowering
