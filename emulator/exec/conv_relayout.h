// SPDX-License-Identifier: Apache-2.0
// A copy of a convolution's input with its features side by side, already of the type that sums are
// made of. Where features lie far apart (NCHW), every line of the implicit matrix would gather its
// terms one by one, once for each position of the kernel that meets them; the copy gathers once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "emulator/exec/gemm/kernels.h"
#include "emulator/isa/program.h"

namespace onrt {

// Immutable; thread-safe.
class ConvRelayout {
 public:
  // `sum`: gemm_detail::Sum as index, of elements of `element_bytes`, whose dtype is `dtype`.
  ConvRelayout(const ncx::Conv& op, size_t sum, uint8_t dtype, size_t element_bytes);

  // False if the input is as good as it is.
  bool wanted() const { return wanted_; }
  // Of the input that the convolution reads: of the copy, if there is one.
  const std::array<int64_t, ncx::kMaxRank>& strides() const { return strides_; }
  uint8_t dtype() const { return dtype_; }
  size_t element_bytes() const { return element_bytes_; }

  int64_t elements() const { return elements_; }
  // Parts of the copy that can be made at the same time.
  int64_t chunks() const { return rows_; }
  // `input` and `copy`: first elements. `buffer`: gemm_detail::kPackBuffer elements of 8 bytes.
  void copy(int64_t chunk, const std::byte* input, std::byte* copy, std::byte* buffer,
            const gemm_detail::Kernels& kernels) const;

 private:
  bool gathers(const ncx::Conv& op) const;

  const ncx::View input_;
  size_t sum_;
  uint8_t dtype_;
  size_t element_bytes_;
  bool wanted_ = false;
  std::array<int64_t, ncx::kMaxRank> strides_;
  int64_t elements_ = 1;
  int64_t features_ = 1;
  int64_t inner_ = 1;         // positions of a row, one stride apart
  int64_t inner_stride_ = 1;  // in the input
  int64_t rows_ = 1;
  int outer_axes_ = 0;  // in front of those that make a row
};

}  // namespace onrt
