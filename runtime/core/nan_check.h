// SPDX-License-Identifier: Apache-2.0
// Looks for NaN in tensors of any floating-point type.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/dtype.h"

namespace onrt {

// False for types without NaN. A trailing part of an element is not looked at.
bool holds_nan(Dtype dtype, std::span<const std::byte> data);

}  // namespace onrt
