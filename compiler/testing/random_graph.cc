// SPDX-License-Identifier: Apache-2.0
#include "compiler/testing/random_graph.h"

#include <utility>

#include "compiler/reference/interpreter.h"
#include "compiler/testing/random_generator.h"

namespace onrt::testing {

RandomCase make_random_case(uint64_t seed, const RandomOptions& options) {
  return Generator(seed, options).run();
}

Result<std::vector<Bytes>> interpret_case(const RandomCase& random_case) {
  const hir::Graph& graph = *random_case.graph;
  std::vector<reference::Tensors> arguments;
  for (size_t i = 0; i < random_case.inputs.size(); ++i) {
    arguments.push_back(
        reference::make_tensors(graph, graph[graph.computation(hir::kEntry).parameters[i]].shape));
    arguments.back()[0].data = random_case.inputs[i];
  }
  ONRT_ASSIGN_OR_RETURN(reference::Tensors results,
                        reference::interpret(graph, hir::kEntry, arguments));
  std::vector<Bytes> made;
  for (reference::Tensor& result : results) {
    if (!result.data.empty()) {
      made.push_back(std::move(result.data));
    }
  }
  return made;
}

}  // namespace onrt::testing
