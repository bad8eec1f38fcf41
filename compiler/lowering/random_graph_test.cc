// SPDX-License-Identifier: Apache-2.0
// Optimised and unoptimised programs on the engine, at several thread counts, against the reference
// interpreter: the same bits.
#include "compiler/testing/random_graph.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "compiler/hir/text.h"

namespace onrt::testing {
namespace {

void check(uint64_t seed, const RandomOptions& options) {
  const RandomCase random_case = make_random_case(seed, options);
  const auto expected = interpret_case(random_case);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const RunOptions& run :
       {RunOptions{0, 1, false}, RunOptions{2, 1, false}, RunOptions{2, 2, true},
        RunOptions{2, 4, false}, RunOptions{0, 2, true}, RunOptions{2, 1, true, 64},
        RunOptions{2, 2, false, 400}}) {
    const auto found = run_graph(*random_case.graph, random_case.inputs, run);
    const std::string fault = found.ok() ? difference(*random_case.graph, *expected, *found)
                                         : std::string(found.status().message());
    EXPECT_EQ(fault, "") << "seed " << seed << ", -O" << run.optimization << ", " << run.threads
                         << " threads" << (run.same_memory ? ", aliased" : "") << ", tiles of "
                         << run.tile_bytes << " bytes\n"
                         << hir::print(*random_case.graph);
    if (!fault.empty()) {
      return;
    }
  }
}

// OPENNRT_TEST_SEED=<first> and OPENNRT_TEST_CASES=<count> run others.
uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void check_many(uint64_t first, uint64_t cases, const RandomOptions& options) {
  first = setting("OPENNRT_TEST_SEED", first);
  cases = setting("OPENNRT_TEST_CASES", cases);
  for (uint64_t seed = first; seed < first + cases && !::testing::Test::HasFailure(); ++seed) {
    check(seed, options);
  }
}

TEST(RandomGraphs, ElementwiseAndMovementGiveTheInterpretersBits) {
  check_many(1000, 150, {14, false, false});
}

TEST(RandomGraphs, SumsAndProductsGiveTheInterpretersBits) {
  check_many(2000, 150, {12, true, false});
}

TEST(RandomGraphs, IndexedOperationsGiveTheInterpretersBits) {
  check_many(3000, 150, {12, true, true});
}

TEST(RandomGraphs, LoopsAndConditionalsGiveTheInterpretersBits) {
  check_many(4000, 150, {10, true, true, true});
}

TEST(RandomGraphs, SortsAndWindowsGiveTheInterpretersBits) {
  check_many(5000, 150, {10, true, false, false, true});
}

}  // namespace
}  // namespace onrt::testing
