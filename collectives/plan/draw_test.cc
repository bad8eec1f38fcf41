// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/plan/algorithm.h"

namespace onrt::cc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

size_t occurrences(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

Schedule ring() {
  Spec spec;
  spec.ranks = 3;
  spec.count = 96;
  return *build_schedule(*find_algorithm("ring"), spec);
}

TEST(Draw, SvgHasALaneARankAndABoxAStep) {
  const Schedule schedule = ring();
  const auto svg = draw_svg(schedule);
  ASSERT_TRUE(svg.ok());
  size_t steps = 0;
  for (const RankProgram& program : schedule.programs) {
    steps += program.channels[0].size();
  }
  EXPECT_EQ(occurrences(*svg, "rx=\"4\""), steps);
  EXPECT_THAT(*svg, AllOf(HasSubstr(">rank 2, channel 0<"),
                          HasSubstr("all_reduce by ring, 3 ranks"), Not(HasSubstr("#d00"))));
}

TEST(Draw, DotHasAnEdgeASignal) {
  const auto dot = draw_dot(ring());
  ASSERT_TRUE(dot.ok());
  EXPECT_EQ(occurrences(*dot, "style=dashed"), 3u * 4);  // each rank signals 4 times
  EXPECT_EQ(occurrences(*dot, "subgraph cluster_"), 3u);
}

TEST(Draw, StepsThatNeverRunAreRed) {
  Schedule schedule = ring();
  schedule.programs[0].channels[0].clear();
  const auto svg = draw_svg(schedule);
  ASSERT_TRUE(svg.ok()) << svg.status().message();
  EXPECT_THAT(*svg, HasSubstr("#d00"));
}

TEST(Draw, NamesFromFilesAreEscaped) {
  Schedule schedule = ring();
  schedule.algorithm = "<script>\"&\n";
  EXPECT_THAT(*draw_svg(schedule),
              AllOf(HasSubstr("&lt;script&gt;&quot;&amp;?"), Not(HasSubstr("<script>"))));
}

TEST(Draw, StepsThatMeanNothingAreAnError) {
  Schedule schedule = ring();
  schedule.programs[1].channels[0][0].first_operand = 1000;
  EXPECT_THAT(std::string(draw_svg(schedule).status().message()),
              HasSubstr("can't be drawn: rank 1, channel 0, step 0: operands beyond the end"));
  schedule.programs.pop_back();
  EXPECT_THAT(std::string(draw_dot(schedule).status().message()),
              HasSubstr("expected 3 programs, found 2"));
}

TEST(Draw, StepsInWords) {
  const Schedule schedule = ring();
  const RankProgram& program = schedule.programs[0];
  EXPECT_EQ(step_text(program, program.channels[0][0], 0),
            "put in[64] -> scratch[0] of 1, 32 elements");
  EXPECT_EQ(step_label(program, program.channels[0][0]), "put -> 1 x 32");
  EXPECT_EQ(step_text(program, program.channels[0][1], 0), "signal rank 1, counter 0, amount 1");
}

}  // namespace
}  // namespace onrt::cc
