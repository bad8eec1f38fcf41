// SPDX-License-Identifier: Apache-2.0
// HIR as text. parse(print(graph)) is an equal graph; format: docs/nrtcc.md.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "compiler/hir/graph.h"

namespace onrt::hir {

std::string print(const Graph& graph);

// Hostile input: bounded depth, no recursion on the number of operations. Errors name the line.
Result<std::unique_ptr<Graph>> parse(std::string_view text);
// Into a new, empty graph; after a failure it holds a part of the text.
Status parse_into(Graph& graph, std::string_view text);

// "a\"b\x00" with quotes: printable ASCII but for quotes and backslashes, others escaped.
std::string quoted(std::string_view bytes);

// One element of a literal: the shortest decimal text that reads back to the same bits, or the
// bits as 0x... where there is none (NaN).
std::string element_text(Dtype dtype, const std::byte* element);
// False if `text` is not an element of this type.
bool parse_element(Dtype dtype, std::string_view text, std::byte* element);

}  // namespace onrt::hir
