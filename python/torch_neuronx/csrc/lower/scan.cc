// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/lower/scan.h"

namespace tnx {

Value scan(Graph& g, const char* opcode, const Value& x, int64_t dim, const Value& init) {
  const auto at = static_cast<size_t>(dim);
  Value result = x;
  for (int64_t step = 1; step < x.dims[at]; step *= 2) {
    Dims low(x.dims.size(), 0);
    Dims high(x.dims.size(), 0);
    low[at] = step;
    high[at] = -step;
    result = g.binary(opcode, g.pad(result, init, low, high), result);
  }
  return result;
}

}  // namespace tnx
