// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/small_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace onrt {
namespace {

// Expected values: ml_dtypes 0.5 (bfloat16, float8_e5m2, float8_e4m3, float8_e4m3fn) and
// numpy.float16, e.g. int(np.array(3.0e-6, np.float32).astype(ml_dtypes.float8_e5m2).view("u1")).
struct Row {
  float value;
  uint16_t bf16;
  uint16_t f16;
  uint8_t f8e5m2;
  uint8_t f8e4m3;
  uint8_t f8e4m3fn;
};
const Row kRows[] = {
#include "runtime/base/small_float_test.inc"
};

TEST(SmallFloat, RoundsAsMlDtypesAndNumpyDo) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.value);
    EXPECT_EQ(Bf16::from_f32(row.value), row.bf16);
    EXPECT_EQ(F16::from_f32(row.value), row.f16);
    EXPECT_EQ(F8E5M2::from_f32(row.value), row.f8e5m2);
    EXPECT_EQ(F8E4M3::from_f32(row.value), row.f8e4m3);
    EXPECT_EQ(F8E4M3Fn::from_f32(row.value), row.f8e4m3fn);
  }
}

template <class Type, class Bits>
void expect_all_round_trip(Bits last) {
  for (uint32_t bits = 0; bits <= last; ++bits) {
    const float value = Type::to_f32(static_cast<Bits>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Type::to_f32(Type::from_f32(value)))) << bits;
    } else {
      EXPECT_EQ(Type::from_f32(value), bits);
    }
  }
}

TEST(SmallFloat, EveryValueSurvivesARoundTrip) {
  expect_all_round_trip<Bf16, uint16_t>(0xffff);
  expect_all_round_trip<F16, uint16_t>(0xffff);
  expect_all_round_trip<F8E5M2, uint8_t>(0xff);
  expect_all_round_trip<F8E4M3, uint8_t>(0xff);
  expect_all_round_trip<F8E4M3Fn, uint8_t>(0xff);
}

TEST(SmallFloat, LimitsAreThoseOfTheFormats) {
  EXPECT_EQ(F16::to_f32(0x7bff), 65504.0f);
  EXPECT_EQ(F16::to_f32(0x0001), std::ldexp(1.0f, -24));
  EXPECT_EQ(F8E5M2::to_f32(0x7b), 57344.0f);
  EXPECT_EQ(F8E4M3::to_f32(0x77), 240.0f);
  EXPECT_EQ(F8E4M3Fn::to_f32(0x7e), 448.0f);
  EXPECT_TRUE(std::isinf(F8E4M3::to_f32(0x78)));
  EXPECT_TRUE(std::isnan(F8E4M3Fn::to_f32(0x7f)));
  EXPECT_EQ(Bf16::to_f32(0x0001), std::ldexp(1.0f, -133));
}

TEST(SmallFloat, NanStaysNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Bf16::to_f32(Bf16::from_f32(nan))));
  EXPECT_TRUE(std::isnan(F16::to_f32(F16::from_f32(nan))));
  EXPECT_TRUE(std::isnan(F8E5M2::to_f32(F8E5M2::from_f32(nan))));
  EXPECT_TRUE(std::isnan(F8E4M3::to_f32(F8E4M3::from_f32(nan))));
  EXPECT_TRUE(std::isnan(F8E4M3Fn::to_f32(F8E4M3Fn::from_f32(nan))));
}

}  // namespace
}  // namespace onrt
