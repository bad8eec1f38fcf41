// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/conv_relayout.h"

#include <algorithm>

#include "emulator/isa/reduce_order.h"
#include "runtime/base/dtype.h"

namespace onrt {
namespace {

constexpr int64_t kMostElements = 1 << 22;
constexpr int64_t kMostFeatures = gemm_detail::kPackBuffer;
constexpr int64_t kLongRun = 32;      // neighbouring positions that are read well as they are
constexpr size_t kFirstAxis = 3;      // after group, batch and feature
constexpr double kLeastMeetings = 2;  // positions of the kernel that meet an element

}  // namespace

ConvRelayout::ConvRelayout(const ncx::Conv& op, size_t sum, uint8_t dtype, size_t element_bytes)
    : input_(op.input),
      sum_(sum),
      dtype_(static_cast<uint8_t>(op.input.dtype)),
      element_bytes_(dtype_bytes(op.input.dtype)),
      strides_(op.input.strides) {
  for (int d = 0; d < input_.rank; ++d) {
    const int64_t size = input_.dims[static_cast<size_t>(d)];
    elements_ = size == 0 || elements_ > kMostElements ? 0 : elements_ * size;
  }
  features_ = input_.dims[2];
  wanted_ = elements_ > 0 && elements_ <= kMostElements && gathers(op);
  if (!wanted_) {
    return;
  }
  dtype_ = dtype;
  element_bytes_ = element_bytes;
  strides_[2] = 1;
  int64_t step = features_;
  for (auto d = static_cast<size_t>(input_.rank); d-- > 0;) {
    if (d != 2) {
      strides_[d] = step;
      step *= input_.dims[d];
    }
  }
  // Axes that follow each other without a gap are one row.
  outer_axes_ = input_.rank - 1;
  const auto last = static_cast<size_t>(outer_axes_);
  inner_ = input_.dims[last];
  inner_stride_ = input_.strides[last];
  while (outer_axes_ > static_cast<int>(kFirstAxis) &&
         input_.strides[static_cast<size_t>(outer_axes_) - 1] == inner_ * inner_stride_) {
    --outer_axes_;
    inner_ *= input_.dims[static_cast<size_t>(outer_axes_)];
  }
  rows_ = elements_ / features_ / inner_;
}

// Several features, none side by side, which many positions of the kernel meet, where rows of
// positions are no better.
bool ConvRelayout::gathers(const ncx::Conv& op) const {
  const auto last = static_cast<size_t>(op.input.rank - 1);
  if (op.axes.empty() || features_ < 2 || features_ > kMostFeatures || op.input.strides[2] == 1) {
    return false;
  }
  double meetings = 1;  // positions of the kernel for an element, about
  for (size_t d = 0; d < op.axes.size(); ++d) {
    const size_t dim = kFirstAxis + d;
    meetings *=
        static_cast<double>(op.kernel.dims[dim]) * static_cast<double>(op.outputs[0].dims[dim]) /
        static_cast<double>(op.axes[d].base_dilation) / static_cast<double>(op.input.dims[dim]);
  }
  const bool strided = op.input.strides[last] != 1 || op.axes.back().stride != 1;
  const bool short_rows = op.outputs[0].dims[last] / op.axes.back().base_dilation < kLongRun;
  return meetings >= kLeastMeetings && (strided || short_rows);
}

void ConvRelayout::copy(int64_t chunk, const std::byte* input, std::byte* copy, std::byte* buffer,
                        const gemm_detail::Kernels& kernels) const {
  int64_t from = 0;
  int64_t to = 0;
  for (auto d = static_cast<size_t>(outer_axes_); d-- > 0;) {
    if (d != 2) {
      const int64_t index = chunk % input_.dims[d];
      chunk /= input_.dims[d];
      from += index * input_.strides[d];
      to += index * strides_[d];
    }
  }
  for (int64_t at = 0; at < inner_; at += ncx::kDotBlock) {
    const int64_t count = std::min<int64_t>(ncx::kDotBlock, inner_ - at);
    const auto* data =
        input + (from + at * inner_stride_) * static_cast<int64_t>(dtype_bytes(input_.dtype));
    auto* out = copy + (to + at * features_) * static_cast<int64_t>(element_bytes_);
    // A single position has no stride along k: 0 keeps it apart from lines side by side.
    kernels.pack[sum_]({{data, static_cast<uint8_t>(input_.dtype), input_.strides[2],
                         count == 1 ? 0 : inner_stride_},
                        features_,
                        count,
                        static_cast<int>(features_),
                        0,
                        out,
                        buffer,
                        0});
  }
}

}  // namespace onrt
