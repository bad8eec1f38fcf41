// SPDX-License-Identifier: Apache-2.0
#include "compiler/lowering/compile.h"

#include <gtest/gtest.h>

#include <set>

#include "compiler/hir/text.h"
#include "compiler/testing/run.h"
#include "emulator/isa/encoding.h"

namespace onrt {
namespace {

using testing::bytes_of;
using testing::run_text;
using testing::values_of;
using Floats = std::vector<float>;

constexpr std::string_view kAdd = R"(HloModule "add"
ENTRY %0 "main" {
  %0 = f32[2,3] parameter(), parameter_number={0}
  %1 = f32[2,3] parameter(), parameter_number={1}
  ROOT %2 = f32[2,3] add(%0, %1)
}
)";

TEST(Compile, AddsTwoArrays) {
  const auto out = run_text(
      kAdd, {bytes_of<float>({1, 2, 3, 4, 5, 6}), bytes_of<float>({10, 20, 30, 40, 50, 60})}, {});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(values_of<float>(out->at(0)), (Floats{11, 22, 33, 44, 55, 66}));
}

TEST(Compile, NamesTensorsAndAliases) {
  const auto graph = hir::parse(kAdd);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE((*graph)->set_input_name(1, "w").ok());
  ASSERT_TRUE((*graph)->set_alias(0, 1).ok());
  const auto package = compile_package(**graph, {}, nullptr);
  ASSERT_TRUE(package.ok()) << package.status().message();
  ASSERT_EQ(package->tensors.size(), 3U);
  EXPECT_EQ(package->tensors[0].name, "input0");
  EXPECT_EQ(package->tensors[1].name, "w");
  EXPECT_EQ(package->tensors[2].name, "output0");
  EXPECT_EQ(package->tensors[2].alias_of, 1);
  EXPECT_EQ(package->lnc_size, 2U);  // trn2's default
}

TEST(Compile, RefusesAnUnknownTarget) {
  const auto graph = hir::parse(kAdd);
  CompileOptions options;
  options.target = "trn9";
  const auto package = compile_package(**graph, options, nullptr);
  EXPECT_EQ(package.status().code(), NRT_UNSUPPORTED_NEFF_VERSION);
  EXPECT_EQ(package.status().message(), "target 'trn9': expected trn1, trn1n, inf2, trn2 or trn3");
}

// Hand values: squares plus one, one of them through a tuple and two calls.
TEST(Compile, InlinesCallsMapsAndTuples) {
  const auto out = run_text(R"(HloModule "m"
%1 "square_plus_one" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] constant(), literal={1}
  %2 = f32[] multiply(%0, %0)
  ROOT %3 = f32[] add(%2, %1)
}
%2 "swap" {
  %0 = (f32[3], f32[]) parameter(), parameter_number={0}
  %1 = f32[] get-tuple-element(%0), index={1}
  %2 = f32[3] get-tuple-element(%0), index={0}
  ROOT %3 = (f32[], f32[3]) tuple(%1, %2)
}
ENTRY %0 "main" {
  %0 = f32[3] parameter(), parameter_number={0}
  %1 = f32[3] map(%0), dimensions={0}, to_apply={1}
  %2 = f32[] constant(), literal={4}
  %3 = f32[] call(%2), to_apply={1}
  %4 = (f32[3], f32[]) tuple(%1, %3)
  %5 = (f32[3], f32[]) opt-barrier(%4)
  ROOT %6 = (f32[], f32[3]) call(%5), to_apply={2}
}
)",
                            {bytes_of<float>({1, 2, -3})}, {});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(values_of<float>(out->at(0)), (Floats{17}));
  EXPECT_EQ(values_of<float>(out->at(1)), (Floats{2, 5, 10}));
}

TEST(Compile, DrawsRandomNumbersFromTheirRange) {
  const auto out = run_text(R"(HloModule "m"
ENTRY %0 "main" {
  %0 = f32[] constant(), literal={-2}
  %1 = f32[] constant(), literal={3}
  %2 = f32[10000] rng(%0, %1), distribution={1}
  %3 = f32[10000] rng(%0, %1), distribution={1}
  %4 = f32[10000] rng(%0, %1), distribution={2}
  ROOT %5 = (f32[10000], f32[10000], f32[10000]) tuple(%2, %3, %4)
}
)",
                            {}, {});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_NE(out->at(0), out->at(1));  // each generator has its own stream
  double uniform = 0;
  for (const float value : values_of<float>(out->at(0))) {
    ASSERT_GE(value, -2.0F);
    ASSERT_LT(value, 3.0F);
    uniform += value;
  }
  EXPECT_NEAR(uniform / 10000, 0.5, 0.1);  // deviation of the mean: 5 / sqrt(12 * 10000) = 0.014
  double normal = 0;
  for (const float value : values_of<float>(out->at(2))) {
    normal += value;
  }
  EXPECT_NEAR(normal / 10000, -2, 0.2);  // deviation of the mean: 3 / sqrt(10000) = 0.03
}

// Hand values; index 3 is outside, so its row of updates is left out.
TEST(Compile, ScattersByShifts) {
  const auto out = run_text(
      R"(HloModule "m"
%1 "shift" {
  %0 = u32[] parameter(), parameter_number={0}
  %1 = u32[] parameter(), parameter_number={1}
  ROOT %2 = u32[] shift-right-logical(%0, %1)
}
ENTRY %0 "main" {
  %0 = u32[2,3] parameter(), parameter_number={0}
  %1 = s32[2,1] constant(), literal={3,1}
  %2 = u32[2,3] parameter(), parameter_number={1}
  ROOT %3 = u32[2,3] scatter(%0, %1, %2), offset_dims={1}, collapsed_dims={0}, index_map={0}, index_vector_dim={1}, to_apply={1}
}
)",
      {bytes_of<uint32_t>({1, 2, 3, 64, 65, 0xffffffff}), bytes_of<uint32_t>({1, 1, 1, 0, 5, 31})},
      {});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(values_of<uint32_t>(out->at(0)), (std::vector<uint32_t>{1, 2, 3, 64, 2, 1}));
}

// Nine dimensions, reversed one by one: no two of them can become one.
TEST(Compile, NamesAnOperationOfTooManyDimensions) {
  const auto out = run_text(R"(HloModule "m"
ENTRY %0 "main" {
  %0 = f32[2,2,2,2,2,2,2,2,2] parameter(), parameter_number={0}
  %1 = f32[2,2,2,2,2,2,2,2,2] transpose(%0), dimensions={8,7,6,5,4,3,2,1,0}
  ROOT %2 = f32[2,2,2,2,2,2,2,2,2] negate(%1), name="flip"
}
)",
                            {bytes_of(Floats(512))}, {});
  EXPECT_EQ(out.status().code(), NRT_UNSUPPORTED_NEFF_VERSION);
  EXPECT_EQ(out.status().message(),
            "instruction 'flip' (negate): needs 9 dimensions that cannot be merged; an instruction "
            "has 8");
}

TEST(Compile, RefusesATupleAsParameterOfTheEntry) {
  const auto out = run_text(R"(HloModule "m"
ENTRY %0 "main" {
  %0 = (f32[2], s32[]) parameter(), parameter_number={0}
  ROOT %1 = f32[2] get-tuple-element(%0), index={0}
}
)",
                            {}, {});
  EXPECT_EQ(out.status().message(),
            "instruction 'parameter.0' (parameter): expected an array as parameter of the entry, "
            "found (f32[2], s32[])");
}

// Two outputs that trade places with two inputs, in the inputs' own memory.
TEST(Compile, SwapsAliasedTensors) {
  testing::RunOptions options;
  options.same_memory = true;
  const auto out = run_text(R"(HloModule "swap"
alias(0, 0)
alias(1, 1)
ENTRY %0 "main" {
  %0 = s32[3] parameter(), parameter_number={0}
  %1 = s32[3] parameter(), parameter_number={1}
  ROOT %2 = (s32[3], s32[3]) tuple(%1, %0)
}
)",
                            {bytes_of<int>({1, 2, 3}), bytes_of<int>({7, 8, 9})}, options);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(values_of<int>(out->at(0)), (std::vector<int>{7, 8, 9}));
  EXPECT_EQ(values_of<int>(out->at(1)), (std::vector<int>{1, 2, 3}));
}

// Five turns of a loop, each with a row of random numbers.
TEST(Compile, DrawsOtherNumbersInEveryTurnOfALoop) {
  const auto out = run_text(R"(HloModule "m"
%1 "goes on" {
  %0 = (s32[], u32[5,3]) parameter(), parameter_number={0}
  %1 = s32[] get-tuple-element(%0), index={0}
  %2 = s32[] constant(), literal={5}
  ROOT %3 = pred[] compare(%1, %2), direction="LT"
}
%2 "row" {
  %0 = (s32[], u32[5,3]) parameter(), parameter_number={0}
  %1 = s32[] get-tuple-element(%0), index={0}
  %2 = u32[5,3] get-tuple-element(%0), index={1}
  %3 = u32[] constant(), literal={0}
  %4 = u32[] constant(), literal={4000000000}
  %5 = u32[1,3] rng(%3, %4), distribution={1}
  %6 = s32[] constant(), literal={0}
  %7 = u32[5,3] dynamic-update-slice(%2, %5, %1, %6)
  %8 = s32[] constant(), literal={1}
  %9 = s32[] add(%1, %8)
  ROOT %10 = (s32[], u32[5,3]) tuple(%9, %7)
}
ENTRY %0 "main" {
  %0 = s32[] constant(), literal={0}
  %1 = u32[] constant(), literal={0}
  %2 = u32[5,3] broadcast(%1), dimensions={}
  %3 = (s32[], u32[5,3]) tuple(%0, %2)
  %4 = (s32[], u32[5,3]) while(%3), to_apply={1,2}
  ROOT %5 = u32[5,3] get-tuple-element(%4), index={1}
}
)",
                            {}, {});
  ASSERT_TRUE(out.ok()) << out.status().message();
  const auto numbers = values_of<uint32_t>(out->at(0));
  EXPECT_EQ(std::set<uint32_t>(numbers.begin(), numbers.end()).size(), numbers.size());
}

// An iota that a branch makes for itself is made again for what comes later.
TEST(Compile, MakesAnIotaWhereItIsNeeded) {
  const auto out = run_text(R"(HloModule "m"
%1 "positions" {
  %0 = s32[2,2] parameter(), parameter_number={0}
  ROOT %1 = s32[2,2] transpose(%0), dimensions={1,0}
}
%2 "same" {
  ROOT %0 = s32[2,2] parameter(), parameter_number={0}
}
ENTRY %0 "main" {
  %0 = pred[] parameter(), parameter_number={0}
  %1 = s32[2,2] parameter(), parameter_number={1}
  %2 = s32[2,2] iota(), dimensions={0}
  %3 = s32[2,2] conditional(%0, %2, %1), to_apply={1,2}
  %4 = s32[2,2] transpose(%2), dimensions={1,0}
  ROOT %5 = (s32[2,2], s32[2,2], s32[2,2]) tuple(%3, %4, %2)
}
)",
                            {bytes_of<uint8_t>({0}), bytes_of<int>({5, 6, 7, 8})}, {});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(values_of<int>(out->at(0)), (std::vector<int>{5, 6, 7, 8}));
  EXPECT_EQ(values_of<int>(out->at(1)), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(values_of<int>(out->at(2)), (std::vector<int>{0, 0, 1, 1}));
}

// An exp whose operand is updated in place before its sum is asked for: the sum is of the old one.
TEST(Compile, SumsWhatWasThereBeforeAnUpdateInPlace) {
  const auto out =
      run_text(R"(HloModule "m"
%1 "add" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = f32[] add(%0, %1)
}
ENTRY %0 "main" {
  %0 = f32[4] parameter(), parameter_number={0}
  %1 = f32[1] parameter(), parameter_number={1}
  %2 = s32[] parameter(), parameter_number={2}
  %3 = s32[1] reshape(%2)
  %4 = f32[4] reverse(%0), dimensions={0}
  %5 = f32[4] dynamic-update-slice(%4, %1, %2)
  %6 = f32[4] multiply(%5, %5)
  %7 = f32[4] dynamic-update-slice(%5, %1, %2)
  %8 = f32[] constant(), literal={0}
  %9 = f32[] reduce(%6, %8), dimensions={0}, to_apply={1}
  ROOT %10 = (f32[], f32[4]) tuple(%9, %7)
}
)",
               {bytes_of<float>({1, 2, 3, 4}), bytes_of<float>({10}), bytes_of<int>({1})}, {});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(values_of<float>(out->at(0)), (Floats{16 + 100 + 4 + 1}));
  EXPECT_EQ(values_of<float>(out->at(1)), (Floats{4, 10, 2, 1}));
}

}  // namespace
}  // namespace onrt
