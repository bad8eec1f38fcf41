// SPDX-License-Identifier: Apache-2.0
// The reductions as one would write them, for the compiler to vectorise for this very processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace onrt::bench {

void plain_add_f32(const float* a, const float* b, float* out, size_t n);
// In f32, rounded to nearest even; a NaN stays one.
void plain_add_bf16(const uint16_t* a, const uint16_t* b, uint16_t* out, size_t n);

}  // namespace onrt::bench
