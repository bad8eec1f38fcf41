// SPDX-License-Identifier: Apache-2.0
// Which kernels run inside which loop or conditional.
#pragma once

#include <vector>

#include "compiler/lowering/kernel.h"

namespace onrt::lowering {

// Of a plan as it is now; kernels that are added or removed later are not in it. Immutable.
class Nesting {
 public:
  explicit Nesting(const Plan& plan);

  // Kernel of `block` that kernel `number` is, or runs inside of; -1 if it runs outside.
  int32_t in_block(int32_t number, int32_t block) const;
  // First kernel of the blocks of control kernel `number`; itself if they are empty.
  int32_t first(int32_t number) const { return first_[static_cast<size_t>(number)]; }

 private:
  const Plan& plan_;
  std::vector<int32_t> owner_;  // by block: its control kernel; -1: main
  std::vector<int32_t> first_;  // by kernel
};

}  // namespace onrt::lowering
