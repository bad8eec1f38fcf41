// SPDX-License-Identifier: Apache-2.0
// One element at a time: load any dtype as an accumulator, store an accumulator as any dtype.
#pragma once

#include <cstdint>

#include "runtime/base/dtype.h"
#include "runtime/base/small_float.h"

namespace onrt::gemm_detail {

// Element `index` of a floating array as f32.
inline float load_float(const void* data, Dtype dtype, int64_t index) {
  switch (dtype) {
    case Dtype::kF32:
      return static_cast<const float*>(data)[index];
    case Dtype::kF64:
      return static_cast<float>(static_cast<const double*>(data)[index]);
    case Dtype::kBF16:
      return Bf16::to_f32(static_cast<const uint16_t*>(data)[index]);
    case Dtype::kF16:
      return F16::to_f32(static_cast<const uint16_t*>(data)[index]);
    case Dtype::kF8E5M2:
      return F8E5M2::to_f32(static_cast<const uint8_t*>(data)[index]);
    case Dtype::kF8E4M3:
      return F8E4M3::to_f32(static_cast<const uint8_t*>(data)[index]);
    default:
      return F8E4M3Fn::to_f32(static_cast<const uint8_t*>(data)[index]);
  }
}

// Element `index` of an integer or pred array, extended to 64 bits.
inline uint64_t load_integer(const void* data, Dtype dtype, int64_t index) {
  switch (dtype) {
    case Dtype::kPred:
      return static_cast<const uint8_t*>(data)[index] != 0 ? 1 : 0;
    case Dtype::kS8:
      return static_cast<uint64_t>(static_cast<const int8_t*>(data)[index]);
    case Dtype::kU8:
      return static_cast<const uint8_t*>(data)[index];
    case Dtype::kS16:
      return static_cast<uint64_t>(static_cast<const int16_t*>(data)[index]);
    case Dtype::kU16:
      return static_cast<const uint16_t*>(data)[index];
    case Dtype::kS32:
      return static_cast<uint64_t>(static_cast<const int32_t*>(data)[index]);
    case Dtype::kU32:
      return static_cast<const uint32_t*>(data)[index];
    default:
      return static_cast<const uint64_t*>(data)[index];
  }
}

// `value` rounded to what `dtype` can hold, as f32.
inline float round_float(float value, Dtype dtype) {
  switch (dtype) {
    case Dtype::kBF16:
      return Bf16::to_f32(Bf16::from_f32(value));
    case Dtype::kF16:
      return F16::to_f32(F16::from_f32(value));
    case Dtype::kF8E5M2:
      return F8E5M2::to_f32(F8E5M2::from_f32(value));
    case Dtype::kF8E4M3:
      return F8E4M3::to_f32(F8E4M3::from_f32(value));
    case Dtype::kF8E4M3FN:
      return F8E4M3Fn::to_f32(F8E4M3Fn::from_f32(value));
    default:
      return value;
  }
}

inline void store_float(void* data, Dtype dtype, int64_t index, float value) {
  switch (dtype) {
    case Dtype::kF32:
      static_cast<float*>(data)[index] = value;
      return;
    case Dtype::kF64:
      static_cast<double*>(data)[index] = value;
      return;
    case Dtype::kBF16:
      static_cast<uint16_t*>(data)[index] = Bf16::from_f32(value);
      return;
    case Dtype::kF16:
      static_cast<uint16_t*>(data)[index] = F16::from_f32(value);
      return;
    case Dtype::kF8E5M2:
      static_cast<uint8_t*>(data)[index] = F8E5M2::from_f32(value);
      return;
    case Dtype::kF8E4M3:
      static_cast<uint8_t*>(data)[index] = F8E4M3::from_f32(value);
      return;
    default:
      static_cast<uint8_t*>(data)[index] = F8E4M3Fn::from_f32(value);
      return;
  }
}

// `value` wrapped to what `dtype` can hold, extended to 64 bits. pred: value != 0.
inline uint64_t wrap_integer(uint64_t value, Dtype dtype) {
  switch (dtype) {
    case Dtype::kPred:
      return value != 0 ? 1 : 0;
    case Dtype::kS8:
      return static_cast<uint64_t>(static_cast<int8_t>(value));
    case Dtype::kU8:
      return static_cast<uint8_t>(value);
    case Dtype::kS16:
      return static_cast<uint64_t>(static_cast<int16_t>(value));
    case Dtype::kU16:
      return static_cast<uint16_t>(value);
    case Dtype::kS32:
      return static_cast<uint64_t>(static_cast<int32_t>(value));
    case Dtype::kU32:
      return static_cast<uint32_t>(value);
    default:
      return value;
  }
}

inline void store_integer(void* data, Dtype dtype, int64_t index, uint64_t value) {
  switch (dtype_bytes(dtype)) {
    case 1:
      static_cast<uint8_t*>(data)[index] =
          static_cast<uint8_t>(dtype == Dtype::kPred ? value != 0 : value);
      return;
    case 2:
      static_cast<uint16_t*>(data)[index] = static_cast<uint16_t>(value);
      return;
    case 4:
      static_cast<uint32_t*>(data)[index] = static_cast<uint32_t>(value);
      return;
    default:
      static_cast<uint64_t*>(data)[index] = value;
      return;
  }
}

}  // namespace onrt::gemm_detail
