// SPDX-License-Identifier: Apache-2.0
// gemm() against gemm_reference(), bit for bit, at every SIMD level that this machine can run; the
// oracle itself against values worked out by hand and by numpy.
#include "emulator/exec/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <random>
#include <string>

#include "emulator/exec/gemm/dispatch.h"
#include "emulator/exec/gemm/gemm_reference.h"
#include "runtime/base/format.h"
#include "runtime/base/small_float.h"

namespace onrt {
namespace {

using Bytes = std::vector<std::byte>;

void put(Bytes& bytes, Dtype dtype, size_t index, std::mt19937& random) {
  const double value = static_cast<double>(static_cast<int32_t>(random())) / (1 << 30);
  const float f32 = static_cast<float>(value);
  const auto store = [&](auto element) {
    std::memcpy(bytes.data() + index * sizeof element, &element, sizeof element);
  };
  switch (dtype) {
    case Dtype::kF32:
      return store(f32);
    case Dtype::kF64:
      return store(value);
    case Dtype::kBF16:
      return store(Bf16::from_f32(f32));
    case Dtype::kF16:
      return store(F16::from_f32(f32));
    case Dtype::kF8E5M2:
      return store(F8E5M2::from_f32(f32));
    case Dtype::kF8E4M3:
      return store(F8E4M3::from_f32(f32));
    case Dtype::kF8E4M3FN:
      return store(F8E4M3Fn::from_f32(f32));
    case Dtype::kPred:
      return store(static_cast<uint8_t>(random() % 8 == 0));
    default:
      for (uint32_t i = 0; i < dtype_bytes(dtype); ++i) {
        bytes[index * dtype_bytes(dtype) + i] = static_cast<std::byte>(random());
      }
  }
}

Bytes random_bytes(Dtype dtype, int64_t elements, std::mt19937& random) {
  Bytes bytes(static_cast<size_t>(elements) * dtype_bytes(dtype));
  for (size_t i = 0; i < static_cast<size_t>(elements); ++i) {
    put(bytes, dtype, i, random);
  }
  return bytes;
}

enum class Layout { kRows, kColumns, kSpread };

// Strides of a [batch, rows, columns] operand, and the elements it spans.
struct Strides {
  int64_t batch, row, column, elements;
};

Strides strides_of(Layout layout, int64_t batch, int64_t rows, int64_t columns) {
  switch (layout) {
    case Layout::kRows:
      return {rows * columns, columns, 1, batch * rows * columns};
    case Layout::kColumns:
      return {rows * columns, 1, rows, batch * rows * columns};
    default:
      return {3 * rows * (2 * columns + 1), 3 * (2 * columns + 1), 2,
              3 * batch * rows * (2 * columns + 1)};
  }
}

struct Case {
  int64_t batch, m, n, k;
  Dtype a, b, c;
  Layout layout_a = Layout::kRows;
  Layout layout_b = Layout::kRows;
  Layout layout_c = Layout::kRows;
};

std::string describe(const Case& c) {
  return format("batch {} m {} n {} k {} {}x{}->{} layouts {} {} {}", c.batch, c.m, c.n, c.k,
                dtype_name(c.a), dtype_name(c.b), dtype_name(c.c), static_cast<int>(c.layout_a),
                static_cast<int>(c.layout_b), static_cast<int>(c.layout_c));
}

class Operands {
 public:
  explicit Operands(const Case& c) {
    std::mt19937 random(static_cast<uint32_t>(c.m * 7919 + c.n * 104729 + c.k));
    const Strides sa = strides_of(c.layout_a, c.batch, c.m, c.k);
    const Strides sb = strides_of(c.layout_b, c.batch, c.k, c.n);
    const Strides sc = strides_of(c.layout_c, c.batch, c.m, c.n);
    a_ = random_bytes(c.a, sa.elements, random);
    b_ = random_bytes(c.b, sb.elements, random);
    c_.assign(static_cast<size_t>(sc.elements) * dtype_bytes(c.c), kUnset);
    problem_ = {.batch = c.batch,
                .m = c.m,
                .n = c.n,
                .k = c.k,
                .a = {a_.data(), c.a, sa.batch, sa.row, sa.column},
                .b = {b_.data(), c.b, sb.batch, sb.row, sb.column},
                .c = {c_.data(), c.c, sc.batch, sc.row, sc.column}};
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  GemmProblem& problem() { return problem_; }
  const Bytes& result() const { return c_; }

  // Of the reference; the result is unset again.
  Bytes expected() {
    EXPECT_TRUE(gemm_reference(problem_).ok());
    Bytes result = c_;
    unset();
    return result;
  }
  void unset() { std::fill(c_.begin(), c_.end(), kUnset); }

 private:
  static constexpr std::byte kUnset{0x5a};
  Bytes a_, b_, c_;
  GemmProblem problem_;
};

// Levels to test; those that this machine cannot run are named in the output.
std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> result;
  for (SimdLevel level : compiled_simd_levels()) {
    if (simd_level_runs_here(level)) {
      result.push_back(level);
    } else {
      printf("[   NOTE   ] level %s is compiled but cannot run on this processor\n",
             std::string(simd_level_name(level)).c_str());
    }
  }
  return result;
}

void expect_equals_reference(const Case& c, ThreadPool* pool) {
  static const std::vector<SimdLevel> tested = levels();
  Operands operands(c);
  const Bytes expected = operands.expected();
  for (SimdLevel level : tested) {
    operands.unset();
    GemmScratch scratch;
    ASSERT_TRUE(gemm(operands.problem(), level, pool, scratch).ok());
    EXPECT_TRUE(operands.result() == expected) << simd_level_name(level) << ": " << describe(c);
  }
}

TEST(Gemm, EqualsTheReferenceForEveryNumberOfRowsAndColumnsAroundTheTiles) {
  for (int64_t m : {1, 2, 3, 5, 7, 8, 13, 14, 15, 27, 28, 29, 57}) {
    for (int64_t n : {1, 2, 15, 16, 17, 31, 33, 64, 127, 129}) {
      expect_equals_reference({1, m, n, 19, Dtype::kF32, Dtype::kF32, Dtype::kF32}, nullptr);
    }
  }
}

TEST(Gemm, EqualsTheReferenceAcrossBlocksOfK) {
  for (int64_t k : {0, 1, 2, 3, 4, 5, 255, 256, 257, 511, 513, 1030}) {
    for (int64_t m : {3, 40}) {
      for (Dtype c : {Dtype::kF32, Dtype::kBF16}) {
        expect_equals_reference({1, m, 37, k, Dtype::kF32, Dtype::kF32, c}, nullptr);
      }
    }
  }
}

TEST(Gemm, EqualsTheReferenceAcrossBlocksOfRowsAndColumns) {
  expect_equals_reference({1, 2050, 18, 3, Dtype::kF32, Dtype::kF32, Dtype::kF32}, nullptr);
  expect_equals_reference({1, 2050, 16, 258, Dtype::kF32, Dtype::kF32, Dtype::kBF16}, nullptr);
  expect_equals_reference({1, 30, 1041, 258, Dtype::kBF16, Dtype::kBF16, Dtype::kBF16}, nullptr);
  expect_equals_reference({1, 29, 2049, 5, Dtype::kF32, Dtype::kF32, Dtype::kF32}, nullptr);
}

TEST(Gemm, EqualsTheReferenceForEveryLayout) {
  const Layout all[] = {Layout::kRows, Layout::kColumns, Layout::kSpread};
  for (Layout a : all) {
    for (Layout b : all) {
      for (Layout c : all) {
        for (int64_t m : {4, 45}) {
          for (Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
            expect_equals_reference({2, m, 35, 21, dtype, dtype, dtype, a, b, c}, nullptr);
          }
          expect_equals_reference({1, m, 3, 260, Dtype::kF16, Dtype::kF32, Dtype::kF32, a, b, c},
                                  nullptr);
        }
      }
    }
  }
}

TEST(Gemm, EqualsTheReferenceForEveryFloatingType) {
  const Dtype types[] = {Dtype::kF32,    Dtype::kF64,    Dtype::kBF16,    Dtype::kF16,
                         Dtype::kF8E5M2, Dtype::kF8E4M3, Dtype::kF8E4M3FN};
  for (Dtype in : types) {
    for (Dtype out : types) {
      expect_equals_reference({1, 33, 50, 70, in, in, out}, nullptr);
      expect_equals_reference({1, 5, 50, 270, in, Dtype::kBF16, out, Layout::kColumns}, nullptr);
    }
  }
}

// Rows of A and B that are read in place, converted line by line, or copied because they lie a
// cache's period apart.
TEST(Gemm, EqualsTheReferenceAlongLines) {
  for (Dtype in : {Dtype::kF32, Dtype::kBF16, Dtype::kF16, Dtype::kF8E4M3FN}) {
    for (int64_t k : {24, 512, 530}) {
      for (int64_t n : {32, 112, 37}) {
        expect_equals_reference({1, 61, n, k, in, in, Dtype::kF32}, nullptr);
      }
    }
    expect_equals_reference({1, 300, 144, 40, in, in, in}, nullptr);
    expect_equals_reference({2, 30, 400, 40, in, in, Dtype::kF32}, nullptr);
  }
}

TEST(Gemm, EqualsTheReferenceForEveryIntegerType) {
  const Dtype types[] = {Dtype::kPred, Dtype::kS8,  Dtype::kU8,  Dtype::kS16, Dtype::kU16,
                         Dtype::kS32,  Dtype::kU32, Dtype::kS64, Dtype::kU64};
  for (Dtype in : types) {
    for (Dtype out : types) {
      expect_equals_reference({1, 9, 21, 20, in, in, out}, nullptr);
      expect_equals_reference({1, 5, 40, 261, in, Dtype::kS8, out, Layout::kColumns}, nullptr);
    }
  }
}

TEST(Gemm, EqualsTheReferenceForBytesOfEverySignedness) {
  const Dtype types[] = {Dtype::kS8, Dtype::kU8, Dtype::kPred};
  const Layout layouts[] = {Layout::kRows, Layout::kColumns, Layout::kSpread};
  for (Dtype a : types) {
    for (Dtype b : types) {
      for (int64_t m : {3, 24, 61}) {
        for (int64_t k : {1, 2, 3, 5, 64, 261, 515}) {
          expect_equals_reference({1, m, 33, k, a, b, Dtype::kS32}, nullptr);
        }
      }
      for (Layout layout : layouts) {
        expect_equals_reference({2, 45, 37, 23, a, b, Dtype::kS32, layout, Layout::kRows}, nullptr);
        expect_equals_reference({2, 45, 37, 23, a, b, Dtype::kU8, Layout::kRows, layout}, nullptr);
        expect_equals_reference({1, 70, 3, 300, a, b, Dtype::kS32, layout, layout}, nullptr);
      }
    }
  }
}

#if defined(__x86_64__)
TEST(Gemm, BytesWithoutDotProductsEqualTheReference) {
  if (!simd_level_runs_here(SimdLevel::kAvx512)) {
    GTEST_SKIP() << "this processor has no AVX-512";
  }
  for (Dtype a : {Dtype::kS8, Dtype::kU8}) {
    for (Dtype b : {Dtype::kS8, Dtype::kU8}) {
      for (int64_t k : {1, 2, 37, 515}) {
        Operands operands({1, 61, 50, k, a, b, Dtype::kS32});
        const Bytes expected = operands.expected();
        GemmScratch scratch;
        ASSERT_TRUE(gemm_detail::gemm_with(operands.problem(), gemm_detail::kAvx512Kernels, nullptr,
                                           scratch)
                        .ok());
        EXPECT_TRUE(operands.result() == expected) << dtype_name(a) << dtype_name(b) << k;
      }
    }
  }
}
#endif

TEST(Gemm, GivesTheSameBitsWithAnyNumberOfThreads) {
  for (int threads : {2, 3}) {
    ThreadPool pool(threads);
    expect_equals_reference({1, 150, 100, 300, Dtype::kF32, Dtype::kF32, Dtype::kF32}, &pool);
    expect_equals_reference({1, 90, 130, 300, Dtype::kBF16, Dtype::kBF16, Dtype::kBF16}, &pool);
    expect_equals_reference({1, 2, 3000, 20, Dtype::kF32, Dtype::kF32, Dtype::kF32}, &pool);
    expect_equals_reference({40, 16, 30, 16, Dtype::kBF16, Dtype::kBF16, Dtype::kF32}, &pool);
    expect_equals_reference({3, 60, 70, 40, Dtype::kF32, Dtype::kF32, Dtype::kF16}, &pool);
    expect_equals_reference({1, 150, 100, 300, Dtype::kS8, Dtype::kS8, Dtype::kS32}, &pool);
  }
}

TEST(Gemm, BroadcastOperandsHaveStrideZero) {
  Case c{3, 30, 40, 50, Dtype::kF32, Dtype::kF32, Dtype::kF32};
  for (SimdLevel level : levels()) {
    Operands operands(c);
    operands.problem().b.batch_stride = 0;
    operands.problem().a.row_stride = 0;
    const Bytes expected = operands.expected();
    GemmScratch scratch;
    ASSERT_TRUE(gemm(operands.problem(), level, nullptr, scratch).ok());
    EXPECT_TRUE(operands.result() == expected);
  }
}

TEST(Gemm, NegativeStridesReadBackwards) {
  Case c{1, 30, 40, 50, Dtype::kBF16, Dtype::kF32, Dtype::kF32};
  for (SimdLevel level : levels()) {
    Operands operands(c);
    GemmOperand& a = operands.problem().a;
    a.data = static_cast<const uint16_t*>(a.data) + 30 * 50 - 1;
    a.row_stride = -a.row_stride;
    a.column_stride = -1;
    const Bytes expected = operands.expected();
    GemmScratch scratch;
    ASSERT_TRUE(gemm(operands.problem(), level, nullptr, scratch).ok());
    EXPECT_TRUE(operands.result() == expected);
  }
}

// Collects tiles into a dense matrix and counts how often each element came.
struct Collected {
  explicit Collected(const GemmProblem& problem)
      : p(problem), values(static_cast<size_t>(p.batch * p.m * p.n)), seen(values.size()) {}

  static void epilogue(void* context, const GemmTile& tile) {
    auto& self = *static_cast<Collected*>(context);
    const std::lock_guard lock(self.mutex);
    for (int64_t i = 0; i < tile.rows; ++i) {
      for (int64_t j = 0; j < tile.columns; ++j) {
        const int64_t from = i * tile.row_stride + j;
        const auto to = static_cast<size_t>((tile.batch * self.p.m + tile.row + i) * self.p.n +
                                            tile.column + j);
        self.values[to] = tile.accumulator == Dtype::kF32
                              ? static_cast<double>(static_cast<const float*>(tile.values)[from])
                          : tile.accumulator == Dtype::kS32
                              ? static_cast<const int32_t*>(tile.values)[from]
                              : static_cast<double>(static_cast<const int64_t*>(tile.values)[from]);
        ++self.seen[to];
      }
    }
  }

  GemmProblem p;
  std::mutex mutex;
  std::vector<double> values;
  std::vector<int> seen;
};

TEST(Gemm, EpilogueSeesEveryElementOnceRoundedToTheTypeOfC) {
  ThreadPool pool(3);
  const Case cases[] = {
      {1, 100, 90, 300, Dtype::kF32, Dtype::kF32, Dtype::kF32},
      {2, 100, 90, 30, Dtype::kBF16, Dtype::kBF16, Dtype::kBF16},
      {1, 5, 300, 300, Dtype::kF32, Dtype::kF32, Dtype::kF16},
      {1, 300, 2, 300, Dtype::kF32, Dtype::kF32, Dtype::kBF16},
      {20, 30, 9, 7, Dtype::kF16, Dtype::kF16, Dtype::kF8E4M3FN},
      {1, 50, 20, 30, Dtype::kS8, Dtype::kU8, Dtype::kS8},
      {1, 50, 3, 30, Dtype::kS32, Dtype::kS32, Dtype::kS64},
  };
  for (const Case& c : cases) {
    for (SimdLevel level : levels()) {
      Operands operands(c);
      GemmProblem problem = operands.problem();
      problem.epilogue = Collected::epilogue;
      Collected expected(problem);
      problem.epilogue_context = &expected;
      ASSERT_TRUE(gemm_reference(problem).ok());
      Collected found(problem);
      problem.epilogue_context = &found;
      GemmScratch scratch;
      ASSERT_TRUE(gemm(problem, level, &pool, scratch).ok());
      EXPECT_TRUE(found.values == expected.values) << describe(c);
      EXPECT_EQ(found.seen, std::vector<int>(found.seen.size(), 1)) << describe(c);
    }
  }
}

TEST(Gemm, SpecialValuesFollowTheArithmetic) {
  // Row 0: infinities and NaN spread; row 1: subnormal products; row 2: cancellation to +0.
  const float inf = INFINITY;
  const float tiny = std::ldexp(1.0f, -80);
  std::vector<float> a = {inf, 1.0f, tiny, tiny, 3.0f, -3.0f};
  std::vector<float> b = {1.0f, 0.0f, tiny, 1.0f, -inf, tiny};
  for (SimdLevel level : levels()) {
    std::vector<float> c(9);
    GemmProblem problem{.m = 3,
                        .n = 3,
                        .k = 2,
                        .a = {a.data(), Dtype::kF32, 0, 2, 1},
                        .b = {b.data(), Dtype::kF32, 0, 3, 1},
                        .c = {c.data(), Dtype::kF32, 0, 3, 1}};
    GemmScratch scratch;
    ASSERT_TRUE(gemm(problem, level, nullptr, scratch).ok());
    EXPECT_EQ(c[0], inf);
    EXPECT_TRUE(std::isnan(c[1]));  // inf * 0
    EXPECT_EQ(c[2], inf);
    EXPECT_EQ(c[3], 2 * tiny);
    EXPECT_EQ(c[4], -inf);
    EXPECT_EQ(c[5], 0.0f);  // 2^-160 + 2^-160 is below the smallest subnormal, 2^-149
    EXPECT_EQ(c[6], 0.0f);
    EXPECT_FALSE(std::signbit(c[6]));
    EXPECT_EQ(c[7], inf);
    EXPECT_EQ(c[8], 0.0f);
  }
}

TEST(Gemm, RoundsEachProductAndSumOnce) {
  // (1 + 2^-12)^2 - (1 + 2^-11) = 2^-24 exactly; a product rounded to f32 first would give 0.
  const float x = 1.0f + std::ldexp(1.0f, -12);
  std::vector<float> a = {-(1.0f + std::ldexp(1.0f, -11)), x};
  std::vector<float> b = {1.0f, x};
  for (SimdLevel level : levels()) {
    float c = 0.0f;
    GemmProblem problem{.m = 1,
                        .n = 1,
                        .k = 2,
                        .a = {a.data(), Dtype::kF32, 0, 2, 1},
                        .b = {b.data(), Dtype::kF32, 0, 1, 1},
                        .c = {&c, Dtype::kF32, 0, 1, 1}};
    GemmScratch scratch;
    ASSERT_TRUE(gemm(problem, level, nullptr, scratch).ok());
    EXPECT_EQ(c, std::ldexp(1.0f, -24));
  }
}

TEST(Gemm, BlocksOfKAreSummedApart) {
  // The first block sums to 2^24, the second to 1 + 1 = 2, together 2^24 + 2. Added one at a time
  // to 2^24, each 1 would be lost.
  std::vector<float> a(257 + 1, 0.0f);
  std::vector<float> b(258, 1.0f);
  a[0] = 16777216.0f;
  a[256] = 1.0f;
  a[257] = 1.0f;
  for (SimdLevel level : levels()) {
    float c = 0.0f;
    GemmProblem problem{.m = 1,
                        .n = 1,
                        .k = 258,
                        .a = {a.data(), Dtype::kF32, 0, 258, 1},
                        .b = {b.data(), Dtype::kF32, 0, 1, 1},
                        .c = {&c, Dtype::kF32, 0, 1, 1}};
    GemmScratch scratch;
    ASSERT_TRUE(gemm(problem, level, nullptr, scratch).ok());
    EXPECT_EQ(c, 16777218.0f);
  }
}

TEST(Gemm, IntegersWrapAround) {
  // 100 * 100 * 4 = 40000 = 0x9c40: 0x40 = 64 in s8.
  std::vector<int8_t> a(4, 100), b(4, 100);
  for (SimdLevel level : levels()) {
    int8_t c = 0;
    GemmProblem problem{.m = 1,
                        .n = 1,
                        .k = 4,
                        .a = {a.data(), Dtype::kS8, 0, 4, 1},
                        .b = {b.data(), Dtype::kS8, 0, 1, 1},
                        .c = {&c, Dtype::kS8, 0, 1, 1}};
    GemmScratch scratch;
    ASSERT_TRUE(gemm(problem, level, nullptr, scratch).ok());
    EXPECT_EQ(c, 64);
  }
}

TEST(Gemm, NothingIsWrittenForAnEmptyResultAndZerosForEmptyK) {
  std::vector<float> c(4, 7.0f);
  GemmProblem problem{.m = 0, .n = 4, .k = 3, .c = {c.data(), Dtype::kF32, 0, 4, 1}};
  GemmScratch scratch;
  ASSERT_TRUE(gemm(problem, detect_simd_level(), nullptr, scratch).ok());
  EXPECT_EQ(c, std::vector<float>(4, 7.0f));
  problem.m = 1;
  problem.k = 0;
  ASSERT_TRUE(gemm(problem, detect_simd_level(), nullptr, scratch).ok());
  EXPECT_EQ(c, std::vector<float>(4, 0.0f));
}

TEST(Gemm, RefusesSizesAndTypesThatDoNotGoTogether) {
  GemmScratch scratch;
  GemmProblem problem{.m = -1, .n = 4, .k = 3};
  Status status = gemm(problem, SimdLevel::kPlain, nullptr, scratch);
  EXPECT_EQ(status.code(), NRT_INVALID);
  EXPECT_NE(status.message().find("-1"), std::string_view::npos);
  problem.m = int64_t{1} << 41;
  EXPECT_EQ(gemm(problem, SimdLevel::kPlain, nullptr, scratch).code(), NRT_INVALID);
  problem.m = 1;
  problem.b.dtype = Dtype::kS8;
  status = gemm(problem, SimdLevel::kPlain, nullptr, scratch);
  EXPECT_EQ(status.code(), NRT_INVALID);
  EXPECT_NE(status.message().find("f32 x s8 -> f32"), std::string_view::npos);
}

TEST(GemmReference, MatchesNumpyOnASmallProduct) {
  // numpy: np.arange(6).reshape(2, 3) @ np.arange(12).reshape(3, 4)
  std::vector<float> a = {0, 1, 2, 3, 4, 5};
  std::vector<float> b = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  std::vector<float> c(8);
  ASSERT_TRUE(gemm_reference({.m = 2,
                              .n = 4,
                              .k = 3,
                              .a = {a.data(), Dtype::kF32, 0, 3, 1},
                              .b = {b.data(), Dtype::kF32, 0, 4, 1},
                              .c = {c.data(), Dtype::kF32, 0, 4, 1}})
                  .ok());
  EXPECT_EQ(c, (std::vector<float>{20, 23, 26, 29, 56, 68, 80, 92}));
}

}  // namespace
}  // namespace onrt
