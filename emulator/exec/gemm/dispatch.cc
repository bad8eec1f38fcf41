// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/gemm/dispatch.h"

#include <array>

#include "runtime/base/dtype.h"
#include "runtime/base/small_float.h"

namespace onrt::gemm_detail {
namespace {

template <Dtype kDtype, uint8_t kNumber>
constexpr bool kSame = static_cast<uint8_t>(kDtype) == kNumber;
static_assert(kSame<Dtype::kPred, kPredType> && kSame<Dtype::kS8, kS8Type> &&
              kSame<Dtype::kS16, kS16Type> && kSame<Dtype::kS32, kS32Type> &&
              kSame<Dtype::kS64, kS64Type> && kSame<Dtype::kU8, kU8Type> &&
              kSame<Dtype::kU16, kU16Type> && kSame<Dtype::kU32, kU32Type> &&
              kSame<Dtype::kU64, kU64Type> && kSame<Dtype::kF16, kF16Type> &&
              kSame<Dtype::kF32, kF32Type> && kSame<Dtype::kF64, kF64Type> &&
              kSame<Dtype::kBF16, kBf16Type>);

template <class Type>
constexpr std::array<float, 256> make_table() {
  std::array<float, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    table[i] = Type::to_f32(static_cast<uint8_t>(i));
  }
  return table;
}
constexpr auto kF8E5M2Table = make_table<F8E5M2>();
constexpr auto kF8E4M3Table = make_table<F8E4M3>();
constexpr auto kF8E4M3FnTable = make_table<F8E4M3Fn>();

}  // namespace

const float* fp8_table(uint8_t dtype) {
  switch (static_cast<Dtype>(dtype)) {
    case Dtype::kF8E5M2:
      return kF8E5M2Table.data();
    case Dtype::kF8E4M3:
      return kF8E4M3Table.data();
    default:
      return kF8E4M3FnTable.data();
  }
}

const Kernels& kernels_for(SimdLevel level) {
  switch (level) {
#if defined(__x86_64__)
    case SimdLevel::kAvx512:
      return __builtin_cpu_supports("avx512vnni") ? kAvx512VnniKernels : kAvx512Kernels;
    case SimdLevel::kAvx2:
      return kAvx2Kernels;
    case SimdLevel::kSse4:
      return kSse4Kernels;
#elif defined(__aarch64__)
    case SimdLevel::kNeon:
      return kNeonKernels;
#endif
    default:
      return kPlainKernels;
  }
}

}  // namespace onrt::gemm_detail
