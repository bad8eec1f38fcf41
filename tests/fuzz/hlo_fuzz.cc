// SPDX-License-Identifier: Apache-2.0
// HLO importer on hostile bytes. A module that is taken is exported and must be taken again, as the
// same graph.
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
  require((*again)->graph.size() == (*graph)->graph.size());
  return 0;
}
