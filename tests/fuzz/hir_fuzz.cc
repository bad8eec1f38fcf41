// SPDX-License-Identifier: Apache-2.0
// Hostile text as a graph: what parses prints the same text again, and compiles or is refused; a
// program that is made has the right bytes for its own verifier.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "compiler/hir/text.h"
#include "compiler/lowering/compile.h"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto graph = onrt::hir::parse(text);
  if (!graph.ok()) {
    require(!graph.status().message().empty());
    return 0;
  }
  const std::string printed = onrt::hir::print(**graph);
  const auto again = onrt::hir::parse(printed);
  require(again.ok() && onrt::hir::print(**again) == printed);
  for (const int optimization : {0, 2}) {
    onrt::CompileOptions options;
    options.optimization = optimization;
    const auto package = onrt::compile_package(**graph, options, nullptr);
    require(package.ok() || package.status().code() != NRT_FAILURE);
  }
  return 0;
}
