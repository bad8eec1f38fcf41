// SPDX-License-Identifier: Apache-2.0
// Between torch's tensors and the torch-free core: element types, blocks, layouts, errors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "python/torch_neuronx/csrc/checks.h"
#include "python/torch_neuronx/csrc/memory.h"
#include "python/torch_neuronx/csrc/view.h"

namespace tnx {

inline constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;

// Nothing for types that no program holds: complex, quantised and bits.
std::optional<Type> type_of(c10::ScalarType type);

c10::Allocator* device_allocator();
// The block under a storage of ours; null for a storage without bytes.
Block* block_of(const at::Tensor& tensor);
Layout layout_of(const at::Tensor& tensor);
int64_t byte_offset(const at::Tensor& tensor);

// The memory that a program is given of a view: `length` elements, its first one at `start`.
struct Flat {
  int64_t start = 0;
  int64_t length = 0;
};
Flat flat_of(const at::Tensor& tensor, const Layout& layout);

// New tensors on a device, uninitialised.
at::Tensor empty_on(int device, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                    c10::ScalarType type);

// Runs `body`; what it throws becomes torch's own exception types.
template <class Body>
auto translated(Body&& body) {
  try {
    return body();
  } catch (const OutOfMemory& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
  } catch (const CheckFailed& error) {
    TORCH_CHECK_INDEX(!error.is_index(), error.what());
    TORCH_CHECK(false, error.what());
  } catch (const Error& error) {
    TORCH_CHECK(false, error.what());
  }
}

}  // namespace tnx
