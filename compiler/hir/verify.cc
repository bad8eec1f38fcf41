// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_set>

#include "compiler/hir/graph.h"
#include "compiler/hir/status.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

Status verify_computation(const Graph& graph, ComputationId id) {
  const Computation& computation = graph.computation(id);
  if (computation.root < 0) {
    return invalid(format("computation {} ('{}') has no root", id, computation.name));
  }
  for (size_t i = 0; i < computation.parameters.size(); ++i) {
    if (computation.parameters[i] < 0) {
      return invalid(format("computation {} ('{}'): parameter {} of {} is missing", id,
                            computation.name, i, computation.parameters.size()));
    }
  }
  return ok_status();
}

Status verify_names(std::string_view what, const std::vector<std::string>& names, size_t count) {
  if (names.size() > count) {
    return invalid(format("{} name '{}' of number {}: the entry has {} {}s", what, names.back(),
                          names.size() - 1, count, what));
  }
  std::unordered_set<std::string> seen;
  for (size_t i = 0; i < count; ++i) {
    const bool given = i < names.size() && !names[i].empty();
    if (!seen.insert(given ? names[i] : format("{}{}", what, i)).second) {
      return invalid(format("{} {}: name '{}' is taken by another {}", what, i,
                            given ? names[i] : format("{}{}", what, i), what));
    }
  }
  return ok_status();
}

}  // namespace

Status verify(const Graph& graph) {
  ONRT_RETURN_IF_ERROR(verify_computation(graph, kEntry));
  const Computation& entry = graph.computation(kEntry);
  const Shape& root = graph.shape_of(entry.root);
  const size_t outputs = root.is_tuple() ? root.elements.size() : 1;
  ONRT_RETURN_IF_ERROR(verify_names("input", graph.input_names(), entry.parameters.size()));
  ONRT_RETURN_IF_ERROR(verify_names("output", graph.output_names(), outputs));
  for (const Alias& alias : graph.aliases()) {
    if (static_cast<size_t>(alias.output) >= outputs ||
        static_cast<size_t>(alias.parameter) >= entry.parameters.size()) {
      return invalid(
          format("alias of output {} and parameter {}: the entry has {} outputs and {} "
                 "parameters",
                 alias.output, alias.parameter, outputs, entry.parameters.size()));
    }
    const ShapeId output = root.is_tuple() ? root.elements[static_cast<size_t>(alias.output)]
                                           : graph[entry.root].shape;
    const ShapeId parameter = graph[entry.parameters[static_cast<size_t>(alias.parameter)]].shape;
    if (output != parameter) {
      return invalid(
          format("alias of output {} and parameter {}: expected equal shapes, found {} "
                 "and {}",
                 alias.output, alias.parameter, graph.shapes().text(output),
                 graph.shapes().text(parameter)));
    }
  }
  return ok_status();
}

}  // namespace onrt::hir
