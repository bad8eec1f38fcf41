// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/dtype.h"

#include <array>

namespace onrt {
namespace {

constexpr std::array kTable = {
#define ONRT_DTYPE(name, text, bytes, nrt, xla) DtypeInfo{Dtype::k##name, text, bytes, nrt},
#include "runtime/base/dtype.def"
#undef ONRT_DTYPE
};

constexpr uint32_t kNumberLimit = 64;  // larger than any PrimitiveType in the table

constexpr std::array<int8_t, kNumberLimit> make_index() {
  std::array<int8_t, kNumberLimit> index{};
  for (auto& entry : index) {
    entry = -1;
  }
  for (size_t i = 0; i < kTable.size(); ++i) {
    index[static_cast<size_t>(kTable[i].dtype)] = static_cast<int8_t>(i);
  }
  return index;
}
constexpr auto kIndex = make_index();

}  // namespace

const DtypeInfo* find_dtype(uint32_t number) {
  if (number >= kNumberLimit || kIndex[number] < 0) {
    return nullptr;
  }
  return &kTable[static_cast<size_t>(kIndex[number])];
}

const DtypeInfo* find_dtype(std::string_view name) {
  for (const DtypeInfo& row : kTable) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

const DtypeInfo& dtype_info(Dtype dtype) { return *find_dtype(static_cast<uint32_t>(dtype)); }

bool is_floating(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
    case Dtype::kF32:
    case Dtype::kF64:
    case Dtype::kBF16:
    case Dtype::kF8E5M2:
    case Dtype::kF8E4M3FN:
    case Dtype::kF8E4M3:
      return true;
    default:
      return false;
  }
}

bool is_signed_integer(Dtype dtype) {
  return dtype == Dtype::kS8 || dtype == Dtype::kS16 || dtype == Dtype::kS32 ||
         dtype == Dtype::kS64;
}

bool is_unsigned_integer(Dtype dtype) {
  return dtype == Dtype::kU8 || dtype == Dtype::kU16 || dtype == Dtype::kU32 ||
         dtype == Dtype::kU64;
}

}  // namespace onrt
