// SPDX-License-Identifier: Apache-2.0
#include "compiler/hir/text.h"

#include <gtest/gtest.h>

#include <string>

namespace onrt::hir {
namespace {

// Every kind of payload once.
constexpr std::string_view kModule = R"(HloModule "everything \"quoted\" \x0a"
input_name(0) "weights"
output_name(1) "loss"
alias(0, 0)

%2 "add" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = f32[] add(%0, %1)
}

%1 "twice" {
  %0 = f32[] parameter(), parameter_number={0}
  ROOT %1 = f32[] add(%0, %0), name="inner \\ sum"
}

ENTRY %0 "main" {
  %0 = f32[2,3] parameter(), parameter_number={0}, name="weights"
  %1 = f32[] constant(), literal={0}
  %2 = f32[3] reduce(%0, %1), dimensions={0}, to_apply={2}
  %3 = f32[3] map(%2), dimensions={0}, to_apply={1}
  %4 = pred[3] compare(%2, %3), direction="LT", total_order
  %5 = bf16[4] constant(), literal={1.5,-0,inf,0x7fc1}
  %6 = s8[2] constant(), literal={-128,127}
  %7 = pred[2] constant(), literal={0,1}
  %8 = f32[2] constant(), literal={0.1,3.4028235e+38}
  ROOT %9 = (f32[2,3], f32[3]) tuple(%0, %3)
}
)";

TEST(HirText, PrintsWhatItParsed) {
  const auto graph = parse(kModule);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(print(**graph), kModule);
}

TEST(HirText, NamesTheLineOfAFault) {
  struct Case {
    std::string_view text;
    std::string_view message;
  };
  const Case cases[] = {
      {"", "line 1: expected 'HloModule', found the end of the line"},
      {"HloModule \"m\"\nENTRY %1 \"x\" {", "line 2: computation number 1 is out of place"},
      {"HloModule \"m\"\nENTRY %0 \"x\" {\n%0 = f32[2] frobnicate()",
       "line 3: 'frobnicate' is no opcode"},
      {"HloModule \"m\"\nENTRY %0 \"x\" {\n%0 = f32[2] fft()\n}",
       "line 4: instruction 'fft.0' (fft): opcode 'fft' is not supported"},
      {"HloModule \"m\"\nENTRY %0 \"x\" {\n%0 = q4[2] iota(), dimensions={0}\n}",
       "line 3: 'q4' is no element type"},
      {"HloModule \"m\"\nENTRY %0 \"x\" {\n%0 = s32[2] iota(), dimensions={0}\n%1 = s32[2] "
       "add(%0, %1)\n}",
       "line 4: operand %1 is not an earlier value"},
      {"HloModule \"m\"\nENTRY %0 \"x\" {\n%0 = s8[1] constant(), literal={128}\n}",
       "line 3: '128' is no element of type s8"},
      {"HloModule \"m\"\nENTRY %0 \"x\" {\n%0 = f32[-1] constant(), literal={}\n}",
       "array shape f32[-1]: dimension -1 is negative"},
      {"HloModule \"m\"\nENTRY %0 \"x\" {\n%0 = f32[99999999999,99999999999] constant()",
       "above the limit"},
  };
  for (const Case& c : cases) {
    const auto graph = parse(c.text);
    ASSERT_FALSE(graph.ok()) << c.text;
    EXPECT_NE(graph.status().message().find(c.message), std::string_view::npos)
        << graph.status().message();
  }
}

TEST(HirText, RefusesShapesNestedTooDeeply) {
  const std::string text =
      "HloModule \"m\"\nENTRY %0 \"x\" {\n%0 = " + std::string(100000, '(') + "f32[]";
  EXPECT_NE(parse(text).status().message().find("nested deeper than 16 levels"),
            std::string_view::npos);
}

TEST(HirText, RoundTripsADeepGraph) {
  std::string text =
      "HloModule \"deep\"\n\nENTRY %0 \"main\" {\n"
      "  %0 = f32[4] parameter(), parameter_number={0}\n";
  constexpr int kDepth = 100000;
  for (int i = 1; i <= kDepth; ++i) {
    text += std::string(i == kDepth ? "  ROOT %" : "  %") + std::to_string(i) +
            " = f32[4] negate(%" + std::to_string(i - 1) + ")\n";
  }
  text += "}\n";
  const auto graph = parse(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_TRUE(verify(**graph).ok());
  EXPECT_EQ(print(**graph), text);
}

}  // namespace
}  // namespace onrt::hir
