// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/lower/scan.h"

namespace tnx {

Value scan(Graph& g, const char* opcode, const Value& x, int64_t dim, const Value& init) {
  std::vector<Window> window(x.dims.size());
  const int64_t n = x.dims[static_cast<size_t>(dim)];
  window[static_cast<size_t>(dim)] = {.size = n, .low = n - 1};
  return g.reduce_window(opcode, x, init, window);
}

}  // namespace tnx
