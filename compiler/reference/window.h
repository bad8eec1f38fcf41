// SPDX-License-Identifier: Apache-2.0
// The elements of one window, for the interpreter.
#pragma once

#include <span>

#include "compiler/reference/tensor.h"
#include "emulator/isa/program.h"

namespace onrt::reference {

// Calls visit(index in the operand) for the elements of window `index`, row-major over its places.
template <class Visit>
void for_each_element(std::span<const ncx::WindowDimension> window, const Index& operand,
                      const Index& index, Visit visit) {
  Index sizes;
  for (const ncx::WindowDimension& dimension : window) {
    sizes.push_back(dimension.size);
  }
  for_each_index(sizes, [&](const Index& place, int64_t /*position*/) {
    Index at(operand.size());
    for (size_t d = 0; d < window.size(); ++d) {
      const ncx::WindowDimension& w = window[d];
      const int64_t dilated = index[d] * w.stride - w.padding_low + place[d] * w.window_dilation;
      at[d] = dilated / w.base_dilation;
      if (dilated < 0 || dilated % w.base_dilation != 0 || at[d] >= operand[d]) {
        return;  // padding, or between dilated elements
      }
    }
    visit(static_cast<const Index&>(at));
  });
}

}  // namespace onrt::reference
