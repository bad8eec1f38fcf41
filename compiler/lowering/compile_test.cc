// SPDX-License-Identifier: Apache-2.0
#include "compiler/lowering/compile.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace onrt
