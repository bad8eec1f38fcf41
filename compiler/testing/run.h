// SPDX-License-Identifier: Apache-2.0
// For tests: a graph's text through the compiler and the engine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/hir/graph.h"
#include "compiler/lowering/compile.h"
#include "runtime/base/status.h"

namespace onrt::testing {

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}
template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  const auto* begin = reinterpret_cast<const T*>(bytes.data());
  return {begin, begin + bytes.size() / sizeof(T)};
}

struct RunOptions {
  int optimization = 2;
  int threads = 1;
  bool same_memory = false;  // aliased outputs are in their input's memory
  int64_t tile_bytes = CompileOptions().tile_bytes;
};

// Where results of the graph differ, as text; "" if they are equal. A NaN's sign and payload are
// not part of a result: IEEE 754 leaves them open, and a product of two NaNs may keep either.
std::string difference(const hir::Graph& graph, const std::vector<Bytes>& expected,
                       const std::vector<Bytes>& found);

// Compiles and runs once; one element per output of the NEFF's table.
Result<std::vector<Bytes>> run_graph(const hir::Graph& graph, const std::vector<Bytes>& inputs,
                                     const RunOptions& options);
Result<std::vector<Bytes>> run_text(std::string_view text, const std::vector<Bytes>& inputs,
                                    const RunOptions& options);

}  // namespace onrt::testing
