// SPDX-License-Identifier: Apache-2.0
// npy and npz readers on hostile bytes; what was read is written and read again.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tools/common/npy.h"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  if (const auto array = onrt::tools::parse_npy(file); array.ok()) {
    const auto again = onrt::tools::parse_npy(onrt::tools::make_npy(*array));
    require(again.ok() && again->data == array->data && again->shape == array->shape);
  }
  if (const auto arrays = onrt::tools::parse_npz(file); arrays.ok()) {
    const auto again = onrt::tools::parse_npz(onrt::tools::make_npz(*arrays));
    require(again.ok() && again->size() == arrays->size());
  }
  return 0;
}
