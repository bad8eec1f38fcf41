// SPDX-License-Identifier: Apache-2.0
// Shapes of HLO as nrtcc_shape_t.
#pragma once

#include <deque>
#include <vector>

#include "compiler/hlo/hlo.pb.h"
#include "opennrt/nrtcc.h"
#include "runtime/base/status.h"

namespace onrt::hlo {

// The nrtcc form of a shape. Points into the message it was made from, which must outlive it.
class ShapeView {
 public:
  // Errors: NRT_INVALID for a negative dimension, a size that overflows or an impossible layout;
  // NRT_UNSUPPORTED_NEFF_VERSION for an element type that nrtcc does not have or a dynamic size.
  static Result<ShapeView> create(const opennrt::hlo::Shape& shape);

  const nrtcc_shape_t* get() const { return &root_; }

 private:
  ShapeView() = default;
  Status fill(const opennrt::hlo::Shape& shape, nrtcc_shape_t& out);

  nrtcc_shape_t root_{};
  std::deque<std::vector<nrtcc_shape_t>> elements_;  // a deque: root_ and elements point into it
};

// Elements of an array shape that ShapeView accepts.
int64_t element_count(const opennrt::hlo::Shape& shape);

// Bytes per element; 0 for tuples, tokens and types that nrtcc does not have.
int64_t element_bytes(const opennrt::hlo::Shape& shape);

// True for no layout at all and for minor_to_major {n-1, ..., 0}.
bool is_row_major(const opennrt::hlo::Shape& shape);

// "f32[2,3]", "(f32[], s32[4])"; of any message, also an invalid one.
std::string shape_text(const opennrt::hlo::Shape& shape);

}  // namespace onrt::hlo
