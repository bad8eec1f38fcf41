// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "compiler/hlo/testing/module_builder.h"

namespace onrt::hlo {
namespace {

using ::testing::Contains;
using ::testing::Not;

// Modules lowered from JAX: examples/digits/generate.py.
opennrt::hlo::Module digits_module(const std::string& name) {
  std::ifstream file(std::string(ONRT_SOURCE_DIR) + "/examples/digits/" + name, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  auto module = parse_module(std::as_bytes(std::span(bytes)));
  EXPECT_TRUE(module.ok()) << name;
  return module.ok() ? std::move(module).value() : opennrt::hlo::Module();
}

TEST(HloExport, AnExportedModuleImportsAsAnEqualGraph) {
  for (const char* name : {"train_step.pb", "predict.pb"}) {
    const GraphPtr original = import_ok(digits_module(name));
    const auto module = export_graph(original->graph);
    ASSERT_TRUE(module.ok()) << module.status().message();
    EXPECT_EQ(hir::print(import_ok(*module)->graph), hir::print(original->graph)) << name;
  }
}

TEST(HloExport, TextGivesTheSameBytesEveryTime) {
  const std::string text = hir::print(import_ok(digits_module("train_step.pb"))->graph);
  const auto first = export_text(text);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(*first, *export_text(text));
}

TEST(HloExport, KeepsNamesAndAliases) {
  const GraphPtr graph = import_ok(digits_module("train_step.pb"));
  ASSERT_TRUE(graph->graph.set_input_name(0, "weight").ok());
  ASSERT_TRUE(graph->graph.set_output_name(8, "loss").ok());
  const auto module = export_graph(graph->graph);
  ASSERT_TRUE(module.ok());
  const GraphPtr again = import_ok(*module);
  EXPECT_EQ(again->graph.input_names().at(0), "weight");
  EXPECT_EQ(again->graph.output_names().at(8), "loss");
  EXPECT_EQ(again->graph.output_names().at(0), "output0");
  EXPECT_EQ(again->graph.aliases().size(), 8U);
}

// XLA ends with a failed check at a pad without a padding config, and refuses TOTALORDER for
// integers: both were written once.
TEST(HloExport, WritesWhatXlaInsistsOn) {
  const auto text = export_text(R"(HloModule "m"

ENTRY %0 "main" {
  %0 = s32[] parameter(), parameter_number={0}
  %1 = s32[] pad(%0, %0), padding={}
  ROOT %2 = pred[] compare(%1, %0), direction="LT", total_order
}
)");
  ASSERT_TRUE(text.ok()) << text.status().message();
  const auto module = parse_module(std::as_bytes(std::span(*text)));
  ASSERT_TRUE(module.ok());
  EXPECT_TRUE(module->computations(0).instructions(1).has_padding_config());
  EXPECT_EQ(module->computations(0).instructions(2).comparison_type(), "");
}

TEST(HloExport, RefusesTextThatIsNoGraph) { EXPECT_FALSE(export_text("not a graph").ok()); }

TEST(HloExport, ListsOnlyOpcodesThatAreLowered) {
  const auto names = supported_opcodes();
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_THAT(names, Contains("dot"));
  EXPECT_THAT(names, Not(Contains("fft")));
}

}  // namespace
}  // namespace onrt::hlo
