// SPDX-License-Identifier: Apache-2.0
// Which graphs are equal and which aren't follows from what the compiler's results depend on
// (canonical.h); there is no other source for these.
#include "compiler/cache/canonical.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "compiler/hir/text.h"
#include "compiler/lowering/compile.h"
#include "compiler/testing/random_graph.h"
#include "runtime/base/digest.h"
#include "runtime/base/format.h"
#include "runtime/neff/neff.h"

namespace onrt::cache {
namespace {

std::string key_of(const hir::Graph& graph) {
  const auto digest = digest_of(graph);
  EXPECT_TRUE(digest.ok()) << digest.status().message();
  return digest.ok() ? to_hex(*digest) : "";
}

std::string key_of(std::string_view text) {
  const auto graph = hir::parse(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message() << "\n" << text;
  return graph.ok() ? key_of(**graph) : "";
}

constexpr std::string_view kPlain = R"(HloModule "sums"
%1 "add" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = f32[] add(%0, %1)
}
ENTRY %0 "main" {
  %0 = f32[2,3] parameter(), parameter_number={0}
  %1 = f32[2,3] parameter(), parameter_number={1}
  %2 = f32[2,3] subtract(%0, %1)
  %3 = f32[2,3] multiply(%0, %1)
  %4 = f32[] constant(), literal={0.5}
  %5 = f32[3] reduce(%2, %4), dimensions={0}, to_apply={1}
  %6 = f32[3] reduce(%3, %4), dimensions={0}, to_apply={1}
  ROOT %7 = (f32[3], f32[3]) tuple(%5, %6)
}
)";

TEST(CanonicalGraph, NamesOfModuleComputationsAndInstructionsDoNotCount) {
  const std::string other = R"(HloModule "jit_f.42"
%1 "region_0.4" {
  %0 = f32[] parameter(), parameter_number={0}, name="Arg_0.5"
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = f32[] add(%0, %1), name="add.7", source="sum x.py:4"
}
ENTRY %0 "main.9" {
  %0 = f32[2,3] parameter(), parameter_number={0}, name="x"
  %1 = f32[2,3] parameter(), parameter_number={1}, source="jit(f) f.py:12"
  %2 = f32[2,3] subtract(%0, %1), name="difference"
  %3 = f32[2,3] multiply(%0, %1)
  %4 = f32[] constant(), literal={0.5}
  %5 = f32[3] reduce(%2, %4), dimensions={0}, to_apply={1}
  %6 = f32[3] reduce(%3, %4), to_apply={1}, dimensions={0}
  ROOT %7 = (f32[3], f32[3]) tuple(%5, %6), name="t"
}
)";
  EXPECT_EQ(key_of(other), key_of(kPlain));
}

TEST(CanonicalGraph, OrderOfIndependentOperationsDoesNotCount) {
  const std::string other = R"(HloModule "sums"
%1 "add" {
  %0 = f32[] parameter(), parameter_number={1}
  %1 = f32[] parameter(), parameter_number={0}
  ROOT %2 = f32[] add(%1, %0)
}
ENTRY %0 "main" {
  %0 = f32[] constant(), literal={0.5}
  %1 = f32[2,3] parameter(), parameter_number={1}
  %2 = f32[2,3] parameter(), parameter_number={0}
  %3 = f32[2,3] multiply(%2, %1)
  %4 = f32[3] reduce(%3, %0), dimensions={0}, to_apply={1}
  %5 = f32[2,3] subtract(%2, %1)
  %6 = f32[3] reduce(%5, %0), dimensions={0}, to_apply={1}
  ROOT %7 = (f32[3], f32[3]) tuple(%6, %4)
}
)";
  EXPECT_EQ(key_of(other), key_of(kPlain));
}

TEST(CanonicalGraph, DeadValuesAndCopiesOfACalleeDoNotCount) {
  const std::string other = R"(HloModule "sums"
%1 "add" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = f32[] add(%0, %1)
}
%2 "nobody_calls_this" {
  %0 = f32[] parameter(), parameter_number={0}
  ROOT %1 = f32[] negate(%0)
}
%3 "add_again" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  %2 = f32[] multiply(%0, %1)
  ROOT %3 = f32[] add(%0, %1)
}
ENTRY %0 "main" {
  %0 = f32[2,3] parameter(), parameter_number={0}
  %1 = f32[2,3] parameter(), parameter_number={1}
  %2 = f32[2,3] subtract(%0, %1)
  %3 = f32[2,3] multiply(%0, %1)
  %4 = f32[] constant(), literal={0.5}
  %5 = f32[3] reduce(%2, %4), dimensions={0}, to_apply={1}
  %6 = f32[3] reduce(%3, %4), dimensions={0}, to_apply={3}
  %7 = f32[3] maximum(%5, %6)
  ROOT %8 = (f32[3], f32[3]) tuple(%5, %6)
}
)";
  EXPECT_EQ(key_of(other), key_of(kPlain));
}

// Every graph that differs in one thing has a key of its own.
TEST(CanonicalGraph, EverythingElseCounts) {
  const std::pair<std::string_view, std::string_view> kChanges[] = {
      {"subtract(%0, %1)", "subtract(%1, %0)"},
      {"subtract(%0, %1)", "subtract(%0, %0)"},
      {"subtract(", "maximum("},
      {"literal={0.5}", "literal={0.25}"},
      {"literal={0.5}", "literal={-0.5}"},
      {"tuple(%5, %6)", "tuple(%6, %5)"},
      {"tuple(%5, %6)", "tuple(%5, %5)"},
      {"ROOT %2 = f32[] add(%0, %1)", "ROOT %2 = f32[] multiply(%0, %1)"},
      {"ROOT %2 = f32[] add(%0, %1)", "ROOT %2 = f32[] add(%1, %0)"},
      {"HloModule \"sums\"", "HloModule \"sums\"\ninput_name(0) \"x\""},
      {"HloModule \"sums\"", "HloModule \"sums\"\ninput_name(1) \"x\""},
      {"HloModule \"sums\"", "HloModule \"sums\"\noutput_name(0) \"x\""},
      {"HloModule \"sums\"", "HloModule \"sums\"\noutput_name(1) \"x\""},
      {"ENTRY %0 \"main\" {",
       "ENTRY %0 \"main\" {\n  %90 = f32[2] parameter(), parameter_number={2}"},
      {"ENTRY %0 \"main\" {",
       "ENTRY %0 \"main\" {\n  %90 = s32[2] parameter(), parameter_number={2}"},
      {"ENTRY %0 \"main\" {",
       "ENTRY %0 \"main\" {\n  %90 = f32[2,1] parameter(), parameter_number={2}"},
  };
  std::map<std::string, std::string> seen = {{key_of(kPlain), "none"}};
  for (const auto& [from, to] : kChanges) {
    std::string text(kPlain);
    text.replace(text.find(from), from.size(), to);
    // Numbers of the entry's values must follow each other.
    if (const size_t extra = text.find("%90"); extra != std::string::npos) {
      text.replace(extra, 3, "%8");
      const size_t begin = text.find("  %8");
      const std::string line = text.substr(begin, text.find('\n', begin) + 1 - begin);
      text.erase(begin, line.size());
      text.insert(text.find("  ROOT %7"), line);
      text.replace(text.find("%8 ="), 4, "%7 =");
      text.replace(text.find("ROOT %7"), 7, "ROOT %8");
    }
    const auto [at, is_new] = seen.emplace(key_of(text), to);
    EXPECT_TRUE(is_new) << "'" << to << "' has the key of '" << at->second << "'";
  }
}

TEST(CanonicalGraph, EveryAttributeCounts) {
  const std::string_view kGraphs[] = {
      "f32[4] slice(%0), slice={0,4,1}",
      "f32[4] slice(%0), slice={1,5,1}",
      "f32[4] slice(%0), slice={0,8,2}",
      "f32[8] reverse(%0), dimensions={0}",
      "f32[8] reverse(%0), dimensions={}",
      "pred[8] compare(%0, %0), direction=\"LT\"",
      "pred[8] compare(%0, %0), direction=\"GT\"",
      "pred[8] compare(%0, %0), direction=\"LT\", total_order",
      "f32[8] reduce-precision(%0), exponent_mantissa={5,10}",
      "f32[8] reduce-precision(%0), exponent_mantissa={8,7}",
      "f32[] dot(%0, %0), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
      "f32[8] dot(%0, %0), lhs_batch_dims={0}, rhs_batch_dims={0}",
      "f32[8,8] dot(%0, %0)",
      "f32[8,2] broadcast(%0), dimensions={0}",
      "f32[2,8] broadcast(%0), dimensions={1}",
      "s32[8] convert(%0)",
      "s32[8] bitcast-convert(%0)",
      "f32[8] copy(%0)",
      "f32[2,4] reshape(%0)",
      "f32[4,2] reshape(%0)",
      "(f32[8]) tuple(%0)",
      "(f32[8], f32[8]) tuple(%0, %0)",
  };
  std::map<std::string, std::string_view> seen;
  for (const std::string_view root : kGraphs) {
    const auto [at, is_new] = seen.emplace(
        key_of(format("HloModule \"m\"\nENTRY %0 \"main\" {{\n  %0 = f32[8] parameter(), "
                      "parameter_number={{0}}\n  ROOT %1 = {}\n}}\n",
                      root)),
        root);
    EXPECT_TRUE(is_new) << root << " has the key of " << at->second;
  }
}

TEST(CanonicalGraph, NamesThatAreTheDefaultDoNotCount) {
  std::string text(kPlain);
  text.replace(0, text.find('\n'),
               "HloModule \"sums\"\ninput_name(0) \"input0\"\noutput_name(1) \"output1\"");
  EXPECT_EQ(key_of(text), key_of(kPlain));
}

TEST(CanonicalGraph, AliasesCountAndTheirOrderDoesNot) {
  const std::string_view body = R"(ENTRY %0 "main" {
  %0 = f32[3] parameter(), parameter_number={0}
  %1 = f32[3] parameter(), parameter_number={1}
  ROOT %2 = (f32[3], f32[3]) tuple(%0, %1)
}
)";
  const auto with = [&](std::string_view aliases) {
    return key_of(format("HloModule \"m\"\n{}{}", aliases, body));
  };
  EXPECT_EQ(with("alias(0, 1)\nalias(1, 0)\n"), with("alias(1, 0)\nalias(0, 1)\n"));
  const std::set<std::string> keys = {with(""), with("alias(0, 0)\n"), with("alias(0, 1)\n"),
                                      with("alias(1, 0)\n"), with("alias(0, 1)\nalias(1, 0)\n")};
  EXPECT_EQ(keys.size(), 5u);
}

// Each draws its own numbers.
TEST(CanonicalGraph, OneRandomArrayUsedTwiceIsNotTwo) {
  const auto with = [](std::string_view pair) {
    return key_of(format(R"(HloModule "m"
ENTRY %0 "main" {{
  %0 = f32[] constant(), literal={{0}}
  %1 = f32[] constant(), literal={{1}}
  %2 = f32[4] rng(%0, %1), distribution={{1}}
  %3 = f32[4] rng(%0, %1), distribution={{1}}
  ROOT %4 = f32[4] subtract({})
}}
)",
                         pair));
  };
  EXPECT_NE(with("%2, %2"), with("%2, %3"));
  EXPECT_EQ(with("%2, %3"), with("%3, %2"));
}

TEST(CanonicalGraph, RefusesAGraphWithoutRoot) {
  const hir::Graph graph("empty");
  const auto digest = digest_of(graph);
  ASSERT_FALSE(digest.ok());
  EXPECT_EQ(digest.status().message(), "computation 0 ('main') has no root");
}

// A tuple that holds one tuple 100 times, 15 levels deep, has 100^15 leaves.
TEST(CanonicalGraph, TuplesThatShareElementsTakeNoTime) {
  hir::Graph graph("m");
  hir::ShapeId shape = *graph.shapes().array(Dtype::kF32, {});
  const int64_t number[] = {0};
  const hir::Attribute attribute = {hir::AttributeKey::kParameterNumber, number, {}};
  hir::Candidate candidate;
  candidate.opcode = hir::Opcode::kParameter;
  candidate.shape = shape;
  candidate.attributes = {&attribute, 1};
  hir::ValueId value = *graph.append(candidate);
  for (int i = 0; i < 15; ++i) {
    const std::vector<hir::ShapeId> elements(100, shape);
    const std::vector<hir::ValueId> operands(100, value);
    shape = *graph.shapes().tuple(elements);
    candidate = {};
    candidate.opcode = hir::Opcode::kTuple;
    candidate.shape = shape;
    candidate.operands = operands;
    value = *graph.append(candidate);
  }
  ASSERT_TRUE(graph.set_root(hir::kEntry, value).ok());
  EXPECT_TRUE(digest_of(graph).ok());
}

// The same graph with its operations appended in another order, under other names.
std::unique_ptr<hir::Graph> shuffled(const hir::Graph& from, std::mt19937_64& random) {
  auto made = std::make_unique<hir::Graph>("shuffled");
  std::vector<hir::ComputationId> computations = {hir::kEntry};
  for (size_t i = 1; i < from.computation_count(); ++i) {
    computations.push_back(*made->add_computation("c"));
  }
  std::vector<hir::ValueId> placed(from.size(), -1);
  const auto place = [&](hir::ValueId value) {
    const hir::Instruction& instruction = from[value];
    std::vector<hir::ValueId> operands;
    for (const hir::ValueId operand : instruction.operands) {
      operands.push_back(placed[static_cast<size_t>(operand)]);
    }
    std::vector<hir::Attribute> attributes(instruction.attributes.begin(),
                                           instruction.attributes.end());
    std::ranges::shuffle(attributes, random);
    hir::Candidate candidate;
    candidate.computation = instruction.computation;
    candidate.opcode = instruction.opcode;
    candidate.operands = operands;
    candidate.attributes = attributes;
    std::vector<hir::ShapeId> shapes;  // by copying: ids of the tables differ
    const std::function<hir::ShapeId(hir::ShapeId)> copy = [&](hir::ShapeId id) {
      const hir::Shape& shape = from.shapes()[id];
      if (!shape.is_tuple()) {
        return *made->shapes().array(shape.dtype, shape.dims);
      }
      std::vector<hir::ShapeId> elements;
      for (const hir::ShapeId element : shape.elements) {
        elements.push_back(copy(element));
      }
      return *made->shapes().tuple(elements);
    };
    candidate.shape = copy(instruction.shape);
    const auto appended = made->append(candidate);
    EXPECT_TRUE(appended.ok()) << appended.status().message();
    placed[static_cast<size_t>(value)] = *appended;
  };
  // Callees are closed by their first call, so they come whole, in their order; the entry last.
  for (size_t i = from.computation_count(); i-- > 0;) {
    const auto id = static_cast<hir::ComputationId>(i == 0 ? 0 : from.computation_count() - i);
    std::vector<hir::ValueId> left = from.computation(id).instructions;
    while (!left.empty()) {
      std::vector<size_t> ready;
      for (size_t at = 0; at < left.size(); ++at) {
        if (std::ranges::all_of(from[left[at]].operands, [&](hir::ValueId operand) {
              return placed[static_cast<size_t>(operand)] >= 0;
            })) {
          ready.push_back(at);
        }
      }
      const size_t at = ready[random() % ready.size()];
      place(left[at]);
      left.erase(left.begin() + static_cast<ptrdiff_t>(at));
    }
    EXPECT_TRUE(made->set_root(id, placed[static_cast<size_t>(from.computation(id).root)]).ok());
  }
  for (size_t i = 0; i < from.input_names().size(); ++i) {
    if (!from.input_names()[i].empty()) {
      EXPECT_TRUE(made->set_input_name(static_cast<int32_t>(i), from.input_names()[i]).ok());
    }
  }
  for (size_t i = 0; i < from.output_names().size(); ++i) {
    if (!from.output_names()[i].empty()) {
      EXPECT_TRUE(made->set_output_name(static_cast<int32_t>(i), from.output_names()[i]).ok());
    }
  }
  for (const hir::Alias& alias : from.aliases()) {
    EXPECT_TRUE(made->set_alias(alias.output, alias.parameter).ok());
  }
  return made;
}

// The seed is in the message. Keys of different seeds differ, so nothing that the generator varies
// is left out; keys of a shuffled graph are equal, and so are its results.
TEST(CanonicalGraph, RandomGraphsKeepTheirKeyAndResultsInAnyOrder) {
  std::set<std::string> keys;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    std::mt19937_64 random(seed);
    const testing::RandomCase made = testing::make_random_case(seed, {.operations = 20});
    const std::unique_ptr<hir::Graph> other = shuffled(*made.graph, random);
    ASSERT_EQ(key_of(*made.graph), key_of(*other));
    ASSERT_TRUE(keys.insert(key_of(*made.graph)).second);
    const auto parsed = hir::parse(hir::print(*made.graph));
    ASSERT_TRUE(parsed.ok());
    ASSERT_EQ(key_of(*made.graph), key_of(**parsed));
    if (seed % 10 == 0) {
      const auto expected = testing::run_graph(*made.graph, made.inputs, {});
      const auto found = testing::run_graph(*other, made.inputs, {});
      ASSERT_TRUE(expected.ok() && found.ok());
      ASSERT_EQ(*expected, *found);
    }
  }
}

}  // namespace
}  // namespace onrt::cache
