// SPDX-License-Identifier: Apache-2.0
// Arrays that are computed again instead of kept, and results that lend their memory.
#include <gtest/gtest.h>

#include "compiler/hir/text.h"
#include "compiler/lowering/compile.h"
#include "compiler/testing/run.h"
#include "emulator/isa/encoding.h"

namespace onrt::testing {
namespace {

constexpr int64_t kTile = 512;  // bytes; arrays below are 32 x 48 x 4 bytes

// x minus the mean of its rows, used by two sums.
constexpr std::string_view kVariance = R"(HloModule "variance"

%1 "add" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = f32[] add(%0, %1)
}

ENTRY %0 "main" {
  %0 = f32[32,48] parameter(), parameter_number={0}
  %1 = f32[] constant(), literal={0}
  %2 = f32[32] reduce(%0, %1), dimensions={1}, to_apply={1}
  %3 = f32[] constant(), literal={48}
  %4 = f32[32] broadcast(%3), dimensions={}
  %5 = f32[32] divide(%2, %4)
  %6 = f32[32,48] broadcast(%5), dimensions={0}
  %7 = f32[32,48] subtract(%0, %6)
  %8 = f32[32,48] multiply(%7, %7)
  %9 = f32[32] reduce(%8, %1), dimensions={1}, to_apply={1}
  %10 = f32[48] reduce(%7, %1), dimensions={0}, to_apply={1}
  ROOT %11 = (f32[32], f32[48]) tuple(%9, %10)
}
)";

// A function of x that is used twice.
constexpr std::string_view kChain = R"(HloModule "chain"

%1 "add" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = f32[] add(%0, %1)
}

ENTRY %0 "main" {
  %0 = f32[32,48] parameter(), parameter_number={0}
  %1 = f32[32,48] tanh(%0)
  %2 = f32[] constant(), literal={0}
  %3 = f32[] reduce(%1, %2), dimensions={0,1}, to_apply={1}
  %4 = f32[32,48] broadcast(%3), dimensions={}
  ROOT %5 = f32[32,48] multiply(%1, %4)
}
)";

Bytes input() {
  std::vector<float> values;
  for (int i = 0; i < 32 * 48; ++i) {
    values.push_back(static_cast<float>((i * 37 + 11) % 101) / 50.0F - 1.0F);
  }
  return bytes_of(values);
}

Result<Compiled> compiled(std::string_view text, int64_t tile_bytes) {
  ONRT_ASSIGN_OR_RETURN(const auto graph, hir::parse(text));
  CompileOptions options;
  options.tile_bytes = tile_bytes;
  return compile_program(*graph, options);
}

TEST(Recompute, ADifferenceIsNotKeptForTwoSums) {
  const auto made = compiled(kVariance, kTile);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_LT(made->program.scratch_bytes, 1024U) << ncx::disassemble(made->program);
}

TEST(Recompute, ChangesNoBit) {
  const auto whole = run_text(kVariance, {input()}, {0, 1, false, 0});
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  for (const int64_t tile_bytes : {8L, 64L, 512L, 512L * 1024}) {
    const auto found = run_text(kVariance, {input()}, {2, 2, false, tile_bytes});
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(*found, *whole) << tile_bytes;
  }
}

TEST(Recompute, AFunctionThatCostsMuchIsKept) {
  const auto made = compiled(kChain, kTile);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const std::string text = ncx::disassemble(made->program);
  EXPECT_EQ(text.find("tanh r0"), text.rfind("tanh r0")) << text;
}

// The sorted copy is over before the result is written.
constexpr std::string_view kSorted = R"(HloModule "sorted"

%1 "add" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = f32[] add(%0, %1)
}

%2 "less" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = pred[] compare(%0, %1), direction="LT"
}

ENTRY %0 "main" {
  %0 = f32[32,48] parameter(), parameter_number={0}
  %1 = f32[32,48] sort(%0), dimensions={1}, to_apply={2}
  %2 = f32[32,8] slice(%1), slice={0,32,1,40,48,1}
  %3 = f32[] constant(), literal={0}
  %4 = f32[32] reduce(%2, %3), dimensions={1}, to_apply={1}
  %5 = f32[32,48] broadcast(%4), dimensions={0}
  ROOT %6 = f32[32,48] divide(%0, %5)
}
)";

TEST(BorrowedResults, ASortedCopyLiesInTheResult) {
  const auto graph = hir::parse(kSorted);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto apart = compiled(kSorted, 0);
  const auto made = compiled(kSorted, kTile);
  ASSERT_TRUE(apart.ok() && made.ok()) << apart.status().message();
  EXPECT_GE(apart->program.scratch_bytes, 32U * 48 * 4);
  EXPECT_LT(made->program.scratch_bytes, 1024U) << ncx::disassemble(made->program);
  const auto whole = run_text(kSorted, {input()}, {0, 1, false, 0});
  const auto found = run_text(kSorted, {input()}, {2, 2, false, kTile});
  ASSERT_TRUE(whole.ok() && found.ok()) << whole.status().message();
  EXPECT_EQ(*found, *whole);
}

}  // namespace
}  // namespace onrt::testing
