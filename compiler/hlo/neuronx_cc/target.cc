// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/neuronx_cc/target.h"

#include <array>

#include "runtime/base/file.h"

namespace onrt::cc {

std::string target_of_product(std::string_view product_name) {
  // "trn1n" stands before its prefix "trn1".
  constexpr std::array<std::string_view, 5> kTargets = {"trn1n", "trn1", "trn2", "trn3", "inf2"};
  for (const std::string_view target : kTargets) {
    if (product_name.starts_with(target)) {
      return std::string(target);
    }
  }
  return "";
}

std::string default_target() {
  const auto product = read_file("/sys/devices/virtual/dmi/id/product_name");
  const std::string target =
      product.ok()
          ? target_of_product({reinterpret_cast<const char*>(product->data()), product->size()})
          : "";
  return target.empty() ? "trn2" : target;
}

}  // namespace onrt::cc
