// SPDX-License-Identifier: Apache-2.0
// Folds over windows of a padded array: the padding becomes the windows'.
#include <gtest/gtest.h>

#include "compiler/hir/text.h"
#include "compiler/lowering/compile.h"
#include "compiler/testing/run.h"
#include "emulator/isa/encoding.h"

namespace onrt::testing {
namespace {

// The gradient of average pooling: 3 x 3 windows over an array spread by zeros.
std::string pooled(std::string_view combiner, std::string_view padding, std::string_view initial) {
  return R"(HloModule "pooled"

%1 "fold" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = f32[] )" +
         std::string(combiner) + R"((%0, %1)
}

ENTRY %0 "main" {
  %0 = f32[5,6] parameter(), parameter_number={0}
  %1 = f32[] constant(), literal={)" +
         std::string(padding) + R"(}
  %2 = f32[11,14] pad(%0, %1), padding={1,1,1,1,2,1}
  %3 = f32[] constant(), literal={)" +
         std::string(initial) + R"(}
  ROOT %4 = f32[9,12] reduce-window(%2, %3), window={3,1,0,0,1,1,0,3,1,0,0,1,1,0}, to_apply={1}
}
)";
}

std::string program_text(const std::string& text) {
  const auto graph = hir::parse(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) {
    return "";
  }
  const auto compiled = compile_program(**graph, {});
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return compiled.ok() ? ncx::disassemble(compiled->program) : std::string();
}

// Element (i, j) of the padded array; the padding is `fill`.
float padded(const std::vector<float>& x, float fill, int i, int j) {
  const int row = i - 1;
  const int column = j - 1;
  const bool inside =
      row >= 0 && column >= 0 && row % 2 == 0 && column % 2 == 0 && row / 2 < 5 && column / 2 < 6;
  return inside ? x[static_cast<size_t>(row / 2 * 6 + column / 2)] : fill;
}

std::vector<float> values() {
  std::vector<float> made;
  for (int i = 0; i < 30; ++i) {
    made.push_back(i % 7 == 3 ? -0.0F : static_cast<float>(i * 17 % 23) - 11.0F);
  }
  return made;
}

TEST(AbsorbPad, SumsOfZerosNeedNoPaddedCopy) {
  const std::string text = pooled("add", "0", "0");
  EXPECT_EQ(program_text(text).find("COPY"), std::string::npos) << program_text(text);
  const std::vector<float> x = values();
  const auto found = run_text(text, {bytes_of(x)}, {});
  ASSERT_TRUE(found.ok()) << found.status().message();
  std::vector<float> expected;  // whole numbers: exact in any order
  for (int i = 0; i < 9; ++i) {
    for (int j = 0; j < 12; ++j) {
      float sum = 0;
      for (int at = 0; at < 9; ++at) {
        sum += padded(x, 0, i + at / 3, j + at % 3);
      }
      expected.push_back(sum);
    }
  }
  EXPECT_EQ((*found)[0], bytes_of(expected));
}

TEST(AbsorbPad, MaximaBesideMinusInfinityNeedNoPaddedCopy) {
  const std::string text = pooled("maximum", "-inf", "-inf");
  EXPECT_EQ(program_text(text).find("COPY"), std::string::npos) << program_text(text);
  const auto plain = run_text(text, {bytes_of(values())}, {0, 1, false, 0});
  const auto found = run_text(text, {bytes_of(values())}, {});
  ASSERT_TRUE(plain.ok() && found.ok());
  EXPECT_EQ(*found, *plain);
}

TEST(AbsorbPad, PaddingThatCountsStays) {
  EXPECT_NE(program_text(pooled("add", "1", "1")).find("COPY"), std::string::npos);
  EXPECT_NE(program_text(pooled("add", "1", "0")).find("COPY"), std::string::npos);
  EXPECT_NE(program_text(pooled("add", "-0", "-0")).find("COPY"), std::string::npos);
  EXPECT_NE(program_text(pooled("multiply", "0", "0")).find("COPY"), std::string::npos);
}

}  // namespace
}  // namespace onrt::testing
