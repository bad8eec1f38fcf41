// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <optional>

namespace tnx {

// Call once, before the device is used.
void register_hooks();

// The generator of a device that is used when none is given.
const at::Generator& default_generator(int device);

// Gives the storage `bytes` bytes; keeps what fits.
void resize_storage(const c10::Storage& storage, size_t bytes);

struct RandomState {
  uint64_t seed;
  uint64_t offset;
};
// State for a draw of `elements` 32-bit numbers; moves the generator on. No generator: the
// device's.
RandomState draw(const std::optional<at::Generator>& generator, int device, uint64_t elements);

}  // namespace tnx
