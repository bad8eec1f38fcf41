// SPDX-License-Identifier: Apache-2.0
// Floor division and modulo as JAX writes them, for all values of s8 beside the mathematical floor.
#include <gtest/gtest.h>

#include "compiler/hir/text.h"
#include "compiler/lowering/compile.h"
#include "compiler/testing/run.h"
#include "emulator/isa/encoding.h"

namespace onrt::testing {
namespace {

// x // divisor and x % divisor, for positive divisors, of all s8.
std::string floor_program(int divisor) {
  return R"(HloModule "floor"

ENTRY %0 "main" {
  %0 = s8[256] parameter(), parameter_number={0}
  %1 = s8[] constant(), literal={)" +
         std::to_string(divisor) + R"(}
  %2 = s8[256] broadcast(%1), dimensions={}
  %3 = s8[] constant(), literal={0}
  %4 = s8[256] broadcast(%3), dimensions={}
  %5 = s8[] constant(), literal={1}
  %6 = s8[256] broadcast(%5), dimensions={}
  %7 = s8[256] remainder(%0, %2)
  %8 = pred[256] compare(%7, %4), direction="NE"
  %9 = s8[256] sign(%0)
  %10 = pred[256] compare(%9, %6), direction="NE"
  %11 = pred[256] and(%10, %8)
  %12 = s8[256] divide(%0, %2)
  %13 = s8[256] subtract(%12, %6)
  %14 = s8[256] select(%11, %13, %12)
  %15 = pred[256] compare(%7, %4), direction="LT"
  %16 = pred[] constant(), literal={0}
  %17 = pred[256] broadcast(%16), dimensions={}
  %18 = pred[256] compare(%15, %17), direction="NE"
  %19 = pred[256] and(%18, %8)
  %20 = s8[256] add(%7, %2)
  %21 = s8[256] select(%19, %20, %7)
  ROOT %22 = (s8[256], s8[256]) tuple(%14, %21)
}
)";
}

std::vector<int8_t> all_values() {
  std::vector<int8_t> values;
  for (int x = -128; x < 128; ++x) {
    values.push_back(static_cast<int8_t>(x));
  }
  return values;
}

TEST(IntegerIdioms, GiveTheFloorOfAllQuotients) {
  for (const int divisor : {1, 2, 3, 4, 7, 16, 64, 127}) {
    const auto found = run_text(floor_program(divisor), {bytes_of(all_values())}, {});
    ASSERT_TRUE(found.ok()) << found.status().message();
    const auto quotients = values_of<int8_t>((*found)[0]);
    const auto rests = values_of<int8_t>((*found)[1]);
    for (int x = -128; x < 128; ++x) {
      const int floor = x >= 0 ? x / divisor : -((-x + divisor - 1) / divisor);
      const auto at = static_cast<size_t>(x + 128);
      ASSERT_EQ(quotients[at], floor) << x << " // " << divisor;
      ASSERT_EQ(rests[at], x - floor * divisor) << x << " % " << divisor;
    }
  }
}

std::string program_text(int divisor) {
  const auto graph = hir::parse(floor_program(divisor));
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) {
    return "";
  }
  const auto compiled = compile_program(**graph, {});
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return compiled.ok() ? ncx::disassemble(compiled->program) : std::string();
}

TEST(IntegerIdioms, APowerOfTwoIsAShiftAndAMask) {
  const std::string text = program_text(16);
  EXPECT_EQ(text.find("remainder r"), std::string::npos) << text;
  EXPECT_EQ(text.find("divide r"), std::string::npos) << text;
  EXPECT_NE(text.find("shift-right-arithmetic"), std::string::npos) << text;
}

TEST(IntegerIdioms, AnotherDivisorKeepsItsDivision) {
  const std::string text = program_text(7);
  EXPECT_NE(text.find("remainder r"), std::string::npos) << text;
  EXPECT_EQ(text.find("sign r"), std::string::npos) << text;
}

}  // namespace
}  // namespace onrt::testing
