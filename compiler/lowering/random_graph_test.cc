// SPDX-License-Identifier: Apache-2.0
// Optimised and unoptimised programs on the engine, at several thread counts, against the reference
// interpreter: the same bits.
#include "compiler/testing/random_graph.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>

#include "compiler/hir/text.h"
#include "emulator/isa/scalar_value.h"

namespace onrt::testing {
namespace {

bool is_nan(Dtype dtype, const std::byte* element) {
  if (!is_floating(dtype)) {
    return false;
  }
  const float value = std::bit_cast<float>(static_cast<uint32_t>(ncx::load_boxed(dtype, element)));
  return value != value;
}

// Where two results differ, as text; "" if they are equal. A NaN's sign and payload are not part of
// a result: IEEE 754 leaves them open, and a product of two NaNs may keep either.
std::string difference(const std::vector<Dtype>& types, const std::vector<Bytes>& expected,
                       const std::vector<Bytes>& found) {
  if (expected.size() != found.size()) {
    return std::to_string(found.size()) + " outputs instead of " + std::to_string(expected.size());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const size_t width = dtype_bytes(types[i]);
    for (size_t at = 0; at < expected[i].size(); at += width) {
      const std::byte* a = expected[i].data() + at;
      const std::byte* b = found[i].data() + at;
      if (std::memcmp(a, b, width) != 0 && !(is_nan(types[i], a) && is_nan(types[i], b))) {
        return "output " + std::to_string(i) + ", element " + std::to_string(at / width) +
               ": expected " + hir::element_text(types[i], a) + ", found " +
               hir::element_text(types[i], b);
      }
    }
  }
  return {};
}

// Element types of the outputs that have elements.
std::vector<Dtype> output_types(const hir::Graph& graph) {
  std::vector<Dtype> types;
  const hir::Computation& entry = graph.computation(hir::kEntry);
  for (const hir::ShapeId id : graph.shape_of(entry.root).elements) {
    if (graph.shapes()[id].element_count > 0) {
      types.push_back(graph.shapes()[id].dtype);
    }
  }
  return types;
}

void check(uint64_t seed, const RandomOptions& options) {
  const RandomCase random_case = make_random_case(seed, options);
  const auto expected = interpret_case(random_case);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const RunOptions& run :
       {RunOptions{0, 1, false}, RunOptions{2, 1, false}, RunOptions{2, 2, true},
        RunOptions{2, 4, false}, RunOptions{0, 2, true}, RunOptions{2, 1, true, 64},
        RunOptions{2, 2, false, 400}}) {
    const auto found = run_graph(*random_case.graph, random_case.inputs, run);
    const std::string fault = found.ok()
                                  ? difference(output_types(*random_case.graph), *expected, *found)
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

}  // namespace
}  // namespace onrt::testing
