// SPDX-License-Identifier: Apache-2.0
// Literals of HLO as dense row-major little-endian bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compiler/hlo/hlo.pb.h"
#include "runtime/base/status.h"

namespace onrt::hlo {

// Points into the message when its bytes are right as they are; else owns a reordered copy.
struct LiteralBytes {
  std::span<const std::byte> data;
  std::vector<std::byte> owned;
};

// The elements of an array literal of type and dimensions `shape`.
// Errors: NRT_INVALID when the literal's own shape or its number of elements differs from `shape`;
// NRT_UNSUPPORTED_NEFF_VERSION for a tuple or an element type that nrtcc does not have.
Result<LiteralBytes> read_literal(const opennrt::hlo::Literal& literal,
                                  const opennrt::hlo::Shape& shape);

// The inverse: `data` are dense row-major elements of `shape`, an array that nrtcc has.
Status write_literal(std::span<const std::byte> data, const opennrt::hlo::Shape& shape,
                     opennrt::hlo::Literal& literal);

}  // namespace onrt::hlo
