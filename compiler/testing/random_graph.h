// SPDX-License-Identifier: Apache-2.0
// For tests: graphs and inputs from a seed.
#pragma once

#include <cstdint>
#include <memory>

#include "compiler/hir/graph.h"
#include "compiler/testing/run.h"

namespace onrt::testing {

struct RandomCase {
  std::unique_ptr<hir::Graph> graph;
  std::vector<Bytes> inputs;
};

// Families of operations that a graph may hold.
struct RandomOptions {
  int operations = 12;
  bool products = true;  // reduce, dot
  bool indexed = true;   // gather, scatter, dynamic slices
  bool control = false;  // loops of a few turns, conditionals, one inside the other
  bool ordered = false;  // sort, topk, reduce-window, select-and-scatter
  // Only what every implementation of HLO has to give alike: no subnormal inputs, folds that start
  // with the combiner's identity and don't depend on their order, strict and stable sorts; and no
  // operation that StableHLO lacks.
  bool portable = false;
  // Floats only by operations that have one right result (IEEE 754), so that errors don't add up.
  bool exact = false;
};

// The same seed and options give the same case.
RandomCase make_random_case(uint64_t seed, const RandomOptions& options);

// The interpreter's results: one element per output that has elements.
Result<std::vector<Bytes>> interpret_case(const RandomCase& random_case);

}  // namespace onrt::testing
