// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/kernels/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "emulator/isa/scalar_value.h"

namespace onrt {
namespace {

// Operations that are not entries of KernelTable::op.
bool is_elsewhere(const ncx::ScalarOpInfo& info) {
  return info.result == ncx::ResultRule::kLeaf || info.result == ncx::ResultRule::kSelect ||
         info.result == ncx::ResultRule::kConvert || info.result == ncx::ResultRule::kBitcast;
}

// A null entry would be called the first time that a program has the operation.
TEST(Kernels, EveryOperationHasOneForEachOfItsTypes) {
  constexpr Dtype kTypes[] = {
#define ONRT_DTYPE(name, text, bytes, nrt, xla) Dtype::k##name,
#include "runtime/base/dtype.def"
#undef ONRT_DTYPE
  };
  for (const SimdLevel level : compiled_simd_levels()) {
    if (!simd_level_runs_here(level)) {
      continue;
    }
    const KernelTable& table = kernel_table(level);
    for (uint32_t number = 0; number < ncx::kScalarOps; ++number) {
      const ncx::ScalarOpInfo& info = *ncx::find_scalar_op(number);
      for (const Dtype type : kTypes) {
        if (is_elsewhere(info) || (info.operand_kinds & ncx::dtype_kind(type)) == 0) {
          continue;
        }
        const auto reg = static_cast<size_t>(ncx::register_class(type));
        EXPECT_NE(table.op[number][reg], nullptr)
            << info.name << " of " << dtype_name(type) << " at level " << simd_level_name(level)
            << ": no set() in kernels_body.h";
      }
    }
  }
}

// Values of every exponent and both signs, with NaN of several payloads, infinities, denormals and
// the limits where formulas change.
std::vector<float> many_floats() {
  std::vector<float> values = {0.0f,    -0.0f,  1.0f,     -1.0f,     0.625f, -0.625f, 20.0f,
                               88.722f, 88.73f, -103.97f, -103.975f, 89.0f,  -104.0f, 4.0f};
  for (const uint32_t bits : {0x7f800000u, 0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0x00000001u,
                              0x007fffffu, 0x00800000u, 0x7f7fffffu}) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(std::bit_cast<float>(bits | 0x80000000u));
  }
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 40009) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return values;
}

void expect_same_as_scalar(const ncx::ScalarOpInfo& info, SimdLevel level,
                           const std::vector<float>& x) {
  const OpKernel kernel = kernel_table(level).op[static_cast<size_t>(info.op)][0];
  // Other operands: the values in other orders, so that all kinds meet.
  std::vector<float> y(x.rbegin(), x.rend());
  std::vector<float> z(x.begin() + 7, x.end());
  z.insert(z.end(), x.begin(), x.begin() + 7);
  std::vector<float> out = x;  // in place
  kernel(out.data(), out.data(), y.data(), z.data(), x.size(), 0);
  int wrong = 0;
  for (size_t i = 0; i < x.size() && wrong < 10; ++i) {
    const ncx::Boxed operands[3] = {std::bit_cast<uint32_t>(x[i]), std::bit_cast<uint32_t>(y[i]),
                                    std::bit_cast<uint32_t>(z[i])};
    const auto want =
        static_cast<uint32_t>(ncx::evaluate(info.op, Dtype::kF32, Dtype::kF32, operands, 0, 0));
    const auto got = std::bit_cast<uint32_t>(out[i]);
    if (got != want) {
      ++wrong;
      ADD_FAILURE() << info.name << "(" << x[i] << ", " << y[i] << ", " << z[i] << ") is "
                    << std::hex << got << " instead of " << want << " at level "
                    << simd_level_name(level);
    }
  }
}

TEST(Kernels, FunctionsOfFloatsHaveTheBitsOfTheScalarFunctions) {
  using ncx::ScalarOp;
  const std::vector<float> values = many_floats();
  for (const SimdLevel level : compiled_simd_levels()) {
    if (!simd_level_runs_here(level)) {
      continue;
    }
    for (const ScalarOp op :
         {ScalarOp::kExp, ScalarOp::kLog, ScalarOp::kLogistic, ScalarOp::kTanh, ScalarOp::kErf,
          ScalarOp::kMaximum, ScalarOp::kMinimum, ScalarOp::kClamp}) {
      expect_same_as_scalar(ncx::scalar_op_info(op), level, values);
    }
  }
}

TEST(Kernels, TheRestOfAVectorIsComputedAndNothingBeyondIt) {
  for (const SimdLevel level : compiled_simd_levels()) {
    if (!simd_level_runs_here(level)) {
      continue;
    }
    const auto& kernels = kernel_table(level).op;
    for (size_t n = 0; n <= 35; ++n) {
      std::vector<float> x(n + 1, 2.0f);
      std::vector<float> y(n + 1, 3.0f);
      kernels[static_cast<size_t>(ncx::ScalarOp::kMaximum)][0](x.data(), x.data(), y.data(),
                                                               nullptr, n, 0);
      EXPECT_EQ(x[n], 2.0f) << simd_level_name(level) << " " << n;
      x[n] = 3.0f;
      EXPECT_EQ(x, y) << simd_level_name(level) << " " << n;
    }
  }
}

// Rows of every length, with zeros of both signs and NaN, against folds of the plain level.
TEST(Kernels, FoldsOfExtremesHaveTheSameBitsAtEveryLevel) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr size_t kRows = 3;
  for (const ncx::ScalarOp op : {ncx::ScalarOp::kMaximum, ncx::ScalarOp::kMinimum}) {
    const auto number = static_cast<size_t>(op);
    for (size_t n = 1; n <= 130; ++n) {
      for (const float special : {0.0f, -0.0f, kNan, -kNan, 5.0f}) {
        std::vector<float> x(kRows * n, op == ncx::ScalarOp::kMaximum ? -0.0f : 0.0f);
        x[n / 2] = special;
        x[n + n - 1] = special;
        x[2 * n] = special;
        uint32_t want[kRows];
        kernel_table(SimdLevel::kPlain)
            .fold[number][0](want, x.data(), n, kRows, static_cast<int64_t>(n));
        for (const SimdLevel level : compiled_simd_levels()) {
          if (!simd_level_runs_here(level)) {
            continue;
          }
          uint32_t got[kRows];
          kernel_table(level).fold[number][0](got, x.data(), n, kRows, static_cast<int64_t>(n));
          EXPECT_EQ(std::memcmp(got, want, sizeof got), 0)
              << simd_level_name(level) << " " << n << " " << special;
        }
      }
    }
  }
}

}  // namespace
}  // namespace onrt
