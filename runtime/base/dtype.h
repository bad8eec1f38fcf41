// SPDX-License-Identifier: Apache-2.0
// Element types: one table (dtype.def) for sizes, names and foreign numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace onrt {

// Values are XLA's PrimitiveType numbers, which are also those of NCX and of nrtcc.h.
enum class Dtype : uint8_t {
#define ONRT_DTYPE(name, text, bytes, nrt, xla) k##name = xla,
#include "runtime/base/dtype.def"
#undef ONRT_DTYPE
};

struct DtypeInfo {
  Dtype dtype;
  std::string_view name;  // as in HLO text: "bf16"
  uint32_t bytes;
  uint32_t nrt_code;
};

// Null for a number that is not in the table.
const DtypeInfo* find_dtype(uint32_t number);
const DtypeInfo* find_dtype(std::string_view name);

// For a Dtype that is known to be valid.
const DtypeInfo& dtype_info(Dtype dtype);
inline uint32_t dtype_bytes(Dtype dtype) { return dtype_info(dtype).bytes; }
inline std::string_view dtype_name(Dtype dtype) { return dtype_info(dtype).name; }

bool is_floating(Dtype dtype);
bool is_signed_integer(Dtype dtype);
bool is_unsigned_integer(Dtype dtype);  // pred not included
inline bool is_integer(Dtype dtype) {
  return is_signed_integer(dtype) || is_unsigned_integer(dtype);
}

}  // namespace onrt
