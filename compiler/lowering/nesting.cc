// SPDX-License-Identifier: Apache-2.0
#include "compiler/lowering/nesting.h"

#include <algorithm>

namespace onrt::lowering {

Nesting::Nesting(const Plan& plan)
    : plan_(plan), owner_(static_cast<size_t>(plan.blocks), -1), first_(plan.kernels.size()) {
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    first_[k] = static_cast<int32_t>(k);
    for (const int32_t block : plan.kernels[k].blocks) {
      owner_[static_cast<size_t>(block)] = static_cast<int32_t>(k);
    }
  }
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    int32_t owner = owner_[static_cast<size_t>(plan.kernels[k].block)];
    while (owner >= 0) {
      int32_t& first = first_[static_cast<size_t>(owner)];
      first = std::min(first, static_cast<int32_t>(k));
      owner = owner_[static_cast<size_t>(plan.kernels[static_cast<size_t>(owner)].block)];
    }
  }
}

int32_t Nesting::in_block(int32_t number, int32_t block) const {
  while (number >= 0 && plan_.kernels[static_cast<size_t>(number)].block != block) {
    number = owner_[static_cast<size_t>(plan_.kernels[static_cast<size_t>(number)].block)];
  }
  return number;
}

}  // namespace onrt::lowering
