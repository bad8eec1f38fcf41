// SPDX-License-Identifier: Apache-2.0
// HLO importer on hostile bytes. A module that is taken is exported and must be taken again, as the
// same graph but for computations that nothing calls; what is exported then is exported the same.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "compiler/api/graph_handle.h"
#include "compiler/hir/text.h"
#include "compiler/hlo/export.h"
#include "compiler/hlo/import.h"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto module = onrt::hlo::parse_module(std::as_bytes(std::span(data, size)));
  if (!module.ok()) {
    return 0;
  }
  const auto graph = onrt::hlo::import_module(*module);
  if (!graph.ok()) {
    require(!graph.status().message().empty());
    return 0;
  }
  const auto exported = onrt::hlo::export_graph((*graph)->graph);
  if (!exported.ok()) {  // rules that only hold for a whole graph
    return 0;
  }
  const auto again = onrt::hlo::import_module(*exported);
  require(again.ok());
  require((*again)->graph.size() <= (*graph)->graph.size());
  const auto exported_again = onrt::hlo::export_graph((*again)->graph);
  require(exported_again.ok());
  const auto third = onrt::hlo::import_module(*exported_again);
  require(third.ok());
  require((*third)->graph.size() == (*again)->graph.size());
  return 0;
}
