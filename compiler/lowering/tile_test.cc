// SPDX-License-Identifier: Apache-2.0
// Chains of kernels over large arrays run in slices: less memory, the same bits.
#include <gtest/gtest.h>

#include "compiler/hir/text.h"
#include "compiler/lowering/compile.h"
#include "compiler/reference/interpreter.h"
#include "compiler/testing/run.h"

namespace onrt::testing {
namespace {

// Scores of 4 heads, 24 queries and 40 keys: 15,360 bytes; softmax; product with the values.
constexpr std::string_view kAttention = R"(HloModule "attention"

%1 "max" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = f32[] maximum(%0, %1)
}

%2 "add" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = f32[] add(%0, %1)
}

ENTRY %0 "main" {
  %0 = f32[4,24,8] parameter(), parameter_number={0}
  %1 = f32[4,40,8] parameter(), parameter_number={1}
  %2 = f32[4,40,8] parameter(), parameter_number={2}
  %3 = f32[4,24,40] dot(%0, %1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  %4 = f32[] constant(), literal={-inf}
  %5 = f32[4,24] reduce(%3, %4), dimensions={2}, to_apply={1}
  %6 = f32[4,24,40] broadcast(%5), dimensions={0,1}
  %7 = f32[4,24,40] subtract(%3, %6)
  %8 = f32[4,24,40] exponential(%7)
  %9 = f32[] constant(), literal={0}
  %10 = f32[4,24] reduce(%8, %9), dimensions={2}, to_apply={2}
  %11 = f32[4,24,40] broadcast(%10), dimensions={0,1}
  %12 = f32[4,24,40] divide(%8, %11)
  ROOT %13 = f32[4,24,8] dot(%12, %2), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
}
)";

uint64_t scratch_of(const hir::Graph& graph, int64_t tile_bytes) {
  CompileOptions options;
  options.tile_bytes = tile_bytes;
  const auto compiled = compile_program(graph, options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return compiled.ok() ? compiled->program.scratch_bytes : 0;
}

std::vector<Bytes> attention_inputs() {
  std::vector<Bytes> inputs;
  for (const int64_t count : {4 * 24 * 8, 4 * 40 * 8, 4 * 40 * 8}) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<float>((i * 37 + 11) % 101) / 50.0F - 1.0F);
    }
    inputs.push_back(bytes_of(values));
  }
  return inputs;
}

TEST(Tile, TheScoresOfAttentionAreNeverThereAtOnce) {
  const auto graph = hir::parse(kAttention);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  constexpr uint64_t kScores = 4 * 24 * 40 * 4;
  EXPECT_GE(scratch_of(**graph, 0), kScores);
  EXPECT_LT(scratch_of(**graph, 4096), kScores / 2);
}

TEST(Tile, ChangesNoBit) {
  const auto inputs = attention_inputs();
  const auto whole = run_text(kAttention, inputs, {2, 1, false, 0});
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  for (const int64_t tile_bytes : {64, 1000, 4096, 1 << 20}) {
    for (const int threads : {1, 3}) {
      const auto sliced = run_text(kAttention, inputs, {2, threads, false, tile_bytes});
      ASSERT_TRUE(sliced.ok()) << sliced.status().message();
      EXPECT_EQ(*sliced, *whole) << tile_bytes << " bytes, " << threads << " threads";
    }
  }
}

// A chain of functions, whose steps are then added from the last to the first: all of them wait.
std::string steps(int count) {
  std::string text = R"(HloModule "steps"

ENTRY %0 "main" {
  %0 = f32[64,64] parameter(), parameter_number={0}
)";
  const auto line = [&](int number, const std::string& what) {
    text += "  " + std::string(number == 2 * count - 1 ? "ROOT " : "") + "%" +
            std::to_string(number) + " = f32[64,64] " + what + "\n";
  };
  const auto name = [](int number) { return "%" + std::to_string(number); };
  for (int i = 1; i <= count; ++i) {
    line(i, (i % 2 == 0 ? "tanh(" : "sine(") + name(i - 1) + ")");
  }
  for (int i = 1; i < count; ++i) {
    line(count + i, "add(" + name(count + i - 1) + ", " + name(count - i) + ")");
  }
  return text + "}\n";
}

TEST(Tile, ManySmallArraysThatAreLargeTogetherAreCut) {
  const auto graph = hir::parse(steps(100));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  constexpr int64_t kTile = 1 << 16;  // four of the arrays
  EXPECT_LT(scratch_of(**graph, kTile), scratch_of(**graph, 0) / 2);
  std::vector<float> values;
  for (int i = 0; i < 64 * 64; ++i) {
    values.push_back(static_cast<float>(i % 97) / 48.0F - 1.0F);
  }
  const auto whole = run_graph(**graph, {bytes_of(values)}, {2, 1, false, 0});
  const auto sliced = run_graph(**graph, {bytes_of(values)}, {2, 2, false, kTile});
  ASSERT_TRUE(whole.ok() && sliced.ok());
  EXPECT_EQ(*sliced, *whole);
}

}  // namespace
}  // namespace onrt::testing
