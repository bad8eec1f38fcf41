// SPDX-License-Identifier: Apache-2.0
// Scalar operations against a table from JAX (testing/make_scalar_table.py) and, where rounding is
// free, against the C library in double precision.
#include "emulator/isa/scalar_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "emulator/isa/reduce_order.h"
#include "emulator/isa/scalar_value.h"
#include "runtime/base/format.h"

namespace onrt::ncx {
namespace {

struct Row {
  ScalarOp op;
  Dtype operand;
  Dtype result;
  uint64_t a;
  uint64_t b;
  uint64_t want;
};

const Row kRows[] = {
#define ROW(op, operand, result, a, b, want) \
  {ScalarOp::k##op, Dtype::k##operand, Dtype::k##result, a, b, want},
#include "emulator/isa/testing/scalar_table.inc"
#undef ROW
};

bool is_nan(Dtype dtype, Boxed value) {
  return is_floating(dtype) && (value & 0x7fffffffu) > 0x7f800000u;
}

TEST(ScalarOps, ExactOperationsEqualJax) {
  int wrong = 0;
  for (const Row& row : kRows) {
    const Boxed operands[3] = {box_bits(row.operand, row.a), box_bits(row.operand, row.b), 0};
    const Boxed got = evaluate(row.op, row.result, row.operand, operands, 0, 0);
    const Boxed want = box_bits(row.result, row.want);
    if (got != want && !(is_nan(row.result, got) && is_nan(row.result, want)) && ++wrong < 20) {
      ADD_FAILURE() << format("{} {} {:#x} {:#x} -> {}: got {:#x}, JAX {:#x}",
                              scalar_op_info(row.op).name, dtype_name(row.operand), row.a, row.b,
                              dtype_name(row.result), got, want);
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << std::size(kRows);
}

// Distance from the exact result in units of the last place of f32.
double ulps(float got, double exact) {
  const auto nearest = static_cast<float>(exact);
  if (got == nearest || (std::isnan(got) && std::isnan(exact))) {
    return 0;
  }
  if (std::isnan(got) || std::isnan(exact) || std::isinf(got) || std::isinf(nearest)) {
    return std::isinf(nearest) && std::fabs(got) > 3.4028e38f ? 1 : 1e9;
  }
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::fabs(got - exact) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

struct Function {
  ScalarOp op;
  std::function<double(double)> exact;
};

TEST(ScalarOps, UnaryFunctionsAreWithinTwoUlpsOfLibmOverAllExponents) {
  const Function functions[] = {
      {ScalarOp::kExp, [](double x) { return std::exp(x); }},
      {ScalarOp::kExpm1, [](double x) { return std::expm1(x); }},
      {ScalarOp::kLog, [](double x) { return std::log(x); }},
      {ScalarOp::kLog1p, [](double x) { return std::log1p(x); }},
      {ScalarOp::kTanh, [](double x) { return std::tanh(x); }},
      {ScalarOp::kSqrt, [](double x) { return std::sqrt(x); }},
      {ScalarOp::kRsqrt, [](double x) { return 1 / std::sqrt(x); }},
      {ScalarOp::kCbrt, [](double x) { return std::cbrt(x); }},
      {ScalarOp::kErf, [](double x) { return std::erf(x); }},
      {ScalarOp::kSin, [](double x) { return std::sin(x); }},
      {ScalarOp::kCos, [](double x) { return std::cos(x); }},
      {ScalarOp::kTan, [](double x) { return std::tan(x); }},
      {ScalarOp::kAcos, [](double x) { return std::acos(x); }},
      {ScalarOp::kAcosh, [](double x) { return std::acosh(x); }},
      {ScalarOp::kAsin, [](double x) { return std::asin(x); }},
      {ScalarOp::kAsinh, [](double x) { return std::asinh(x); }},
      {ScalarOp::kAtan, [](double x) { return std::atan(x); }},
      {ScalarOp::kAtanh, [](double x) { return std::atanh(x); }},
      {ScalarOp::kCosh, [](double x) { return std::cosh(x); }},
      {ScalarOp::kSinh, [](double x) { return std::sinh(x); }},
  };
  for (const Function& function : functions) {
    double worst = 0;
    float at = 0;
    for (uint64_t bits = 0; bits < 0x100000000ull; bits += 80021) {
      const float x = bits_float(static_cast<uint32_t>(bits));
      const Boxed operand = static_cast<uint32_t>(bits);
      const Boxed got = evaluate(function.op, Dtype::kF32, Dtype::kF32, &operand, 0, 0);
      const double distance = ulps(bits_float(static_cast<uint32_t>(got)), function.exact(x));
      if (distance > worst) {
        worst = distance;
        at = x;
      }
    }
    EXPECT_LE(worst, 2.0) << scalar_op_info(function.op).name << " at " << at;
  }
}

// By hand: the product in twice the bits, its upper half.
TEST(ScalarOps, MultiplyHighGivesTheUpperHalf) {
  const auto high = [](Dtype dtype, uint64_t a, uint64_t b) {
    const Boxed operands[] = {box_bits(dtype, a), box_bits(dtype, b)};
    uint64_t bits = 0;
    store_boxed(dtype, evaluate(ScalarOp::kMulhi, dtype, dtype, operands, 0, 0), &bits);
    return bits;
  };
  EXPECT_EQ(high(Dtype::kU8, 200, 3), 2u);
  EXPECT_EQ(high(Dtype::kS8, 0x80, 0x80), 0x40u);  // -128 * -128 = 0x4000
  EXPECT_EQ(high(Dtype::kS8, 0xff, 1), 0xffu);     // -1
  EXPECT_EQ(high(Dtype::kU16, 0xffff, 0xffff), 0xfffeu);
  EXPECT_EQ(high(Dtype::kS32, 0x7fffffff, 4), 1u);
  EXPECT_EQ(high(Dtype::kU32, 0xffffffff, 0xffffffff), 0xfffffffeu);
  EXPECT_EQ(high(Dtype::kU64, ~0ull, ~0ull), ~0ull - 1);
  EXPECT_EQ(high(Dtype::kS64, ~0ull, 5), ~0ull);
  EXPECT_EQ(high(Dtype::kS64, 1ull << 62, 8), 2u);
}

TEST(ScalarOps, LogisticIsTwoUlpsFromItsNearestFloat) {
  for (float x = -100; x < 100; x += 0.00371f) {
    const Boxed operand = float_bits(x);
    const float got = bits_float(static_cast<uint32_t>(
        evaluate(ScalarOp::kLogistic, Dtype::kF32, Dtype::kF32, &operand, 0, 0)));
    const double exact =
        x < 0 ? std::exp(static_cast<double>(x)) / (1 + std::exp(static_cast<double>(x)))
              : 1 / (1 + std::exp(-static_cast<double>(x)));
    const auto nearest = static_cast<float>(exact);
    EXPECT_LE(
        std::abs(static_cast<int64_t>(float_bits(got)) - static_cast<int64_t>(float_bits(nearest))),
        2)
        << x;
  }
}

float random_operand(std::mt19937& random) {
  constexpr float kSpecial[] = {0.0f, -0.0f, 1.0f,      -1.0f,      2.0f,      0.5f,   -2.0f,
                                3.0f, -3.0f, kInfinity, -kInfinity, kQuietNan, 1e-40f, 16777215.0f};
  switch (random() % 4) {
    case 0:
      return kSpecial[random() % std::size(kSpecial)];
    case 1:
      return bits_float(static_cast<uint32_t>(random()));
    default:
      return static_cast<float>(static_cast<int>(random() % 20001) - 10000) /
             static_cast<float>(1 << (random() % 14));
  }
}

TEST(ScalarOps, PowerAndAtan2AreWithinTwoUlpsOfLibm) {
  std::mt19937 random(5);
  for (int i = 0; i < 200000; ++i) {
    const float x = random_operand(random);
    const float y = random_operand(random);
    const Boxed operands[] = {float_bits(x), float_bits(y)};
    const auto run = [&](ScalarOp op) {
      return bits_float(
          static_cast<uint32_t>(evaluate(op, Dtype::kF32, Dtype::kF32, operands, 0, 0)));
    };
    ASSERT_LE(ulps(run(ScalarOp::kPower), std::pow(static_cast<double>(x), static_cast<double>(y))),
              2.0)
        << x << " ^ " << y;
    const float angle = run(ScalarOp::kAtan2);
    ASSERT_LE(ulps(angle, std::atan2(static_cast<double>(x), static_cast<double>(y))), 2.0)
        << x << ", " << y;
    if (!std::isnan(angle)) {
      ASSERT_EQ(std::signbit(angle), std::signbit(x)) << x << ", " << y;
    }
  }
}

TEST(ScalarOps, DenormalsAreKept) {
  const Boxed tiny[] = {1, 1};  // the smallest positive f32
  EXPECT_EQ(evaluate(ScalarOp::kAdd, Dtype::kF32, Dtype::kF32, tiny, 0, 0), 2u);
  const Boxed low = float_bits(-100.0f);
  EXPECT_EQ(bits_float(static_cast<uint32_t>(
                evaluate(ScalarOp::kExp, Dtype::kF32, Dtype::kF32, &low, 0, 0))),
            static_cast<float>(std::exp(-100.0)));
}

TEST(ScalarOps, TotalOrderSeparatesZerosAndNans) {
  const float order[] = {-kQuietNan, -kInfinity, -1.0f, -0.0f, 0.0f, 1.0f, kInfinity, kQuietNan};
  for (size_t i = 0; i < std::size(order); ++i) {
    for (size_t j = 0; j < std::size(order); ++j) {
      const Boxed operands[] = {float_bits(order[i]), float_bits(order[j])};
      EXPECT_EQ(evaluate(ScalarOp::kCompareTotalLt, Dtype::kPred, Dtype::kF32, operands, 0, 0),
                static_cast<Boxed>(i < j));
    }
  }
}

// XLA: narrow formats of reduce-precision have no denormals; a carry may reach infinity.
TEST(ScalarOps, ReducePrecisionRoundsToNearestEven) {
  const auto reduce = [](float x, int exponent, int mantissa) {
    const Boxed operand = float_bits(x);
    return bits_float(static_cast<uint32_t>(
        evaluate(ScalarOp::kReducePrecision, Dtype::kF32, Dtype::kF32, &operand,
                 static_cast<uint64_t>(exponent | mantissa << 8), 0)));
  };
  EXPECT_EQ(reduce(1.0f + 0x1p-8f, 8, 7), 1.0f);  // tie to even
  EXPECT_EQ(reduce(1.0f + 3 * 0x1p-8f, 8, 7), 1.0f + 0x1p-6f);
  EXPECT_EQ(reduce(65520.0f, 5, 10), kInfinity);
  EXPECT_EQ(reduce(0x1p-15f, 5, 10), 0.0f);
  EXPECT_EQ(reduce(3.14159f, 8, 23), 3.14159f);
}

// Every code of the small formats goes to f32 and back unchanged; XLA's rules for the others are in
// the table.
TEST(ScalarOps, EveryCodeOfASmallFormatRoundTrips) {
  for (const Dtype dtype :
       {Dtype::kF16, Dtype::kBF16, Dtype::kF8E5M2, Dtype::kF8E4M3, Dtype::kF8E4M3FN}) {
    for (uint64_t code = 0; code < 1ull << (8 * dtype_bytes(dtype)); ++code) {
      const Boxed value = box_bits(dtype, code);
      uint64_t back = 0;
      store_boxed(dtype, settle_boxed(dtype, value), &back);
      if (!is_nan(dtype, value)) {
        ASSERT_EQ(back, code) << dtype_name(dtype);
      } else {
        ASSERT_TRUE(is_nan(dtype, box_bits(dtype, back))) << dtype_name(dtype) << " " << code;
      }
    }
  }
}

TEST(ScalarOps, CombinerIdentitiesChangeNothing) {
  for (const ScalarOp op : {ScalarOp::kAdd, ScalarOp::kMultiply, ScalarOp::kMinimum,
                            ScalarOp::kMaximum, ScalarOp::kAnd, ScalarOp::kOr, ScalarOp::kXor}) {
    for (const Dtype dtype :
         {Dtype::kF32, Dtype::kBF16, Dtype::kS8, Dtype::kS64, Dtype::kU16, Dtype::kPred}) {
      if (!is_combiner(op, dtype)) {
        continue;
      }
      for (uint64_t bits = 0; bits < 65536; bits += 255) {
        const Boxed x = box_bits(dtype, bits << (8 * dtype_bytes(dtype) > 16 ? 16 : 0));
        if (!is_nan(dtype, x)) {
          ASSERT_EQ(combine_unrounded(op, dtype, combiner_identity(op, dtype), x) & 0xffffffff,
                    x & 0xffffffff)
              << scalar_op_info(op).name << " " << dtype_name(dtype);
        }
      }
    }
  }
}

// By hand: 10 values, lanes of eight; 1 and 2 join lanes 0 and 1, then the lanes fold in halves.
TEST(ReduceOrder, FoldsLanesInHalves) {
  std::string x[10];
  for (int i = 0; i < 10; ++i) {
    x[i] = std::to_string(i);
  }
  const auto join = [](const std::string& a, const std::string& b) { return "(" + a + b + ")"; };
  EXPECT_EQ(reduce_in_order(x, 10, join), "((((08)4)(26))(((19)5)(37)))");
  std::string y[3] = {"a", "b", "c"};
  EXPECT_EQ(reduce_in_order(y, 3, join), "((ac)b)");
}

// By hand. With lanes, argmax met the second of two NaNs first.
TEST(ReduceOrder, PairsKeepTheOrderOfValues) {
  const auto join = [](const std::string& a, const std::string& b) { return "(" + a + b + ")"; };
  std::string x[7] = {"a", "b", "c", "d", "e", "f", "g"};
  EXPECT_EQ(reduce_in_pairs(x, 7, join), "(((ab)(cd))((ef)g))");
  std::string one[1] = {"a"};
  EXPECT_EQ(reduce_in_pairs(one, 1, join), "a");
}

}  // namespace
}  // namespace onrt::ncx
