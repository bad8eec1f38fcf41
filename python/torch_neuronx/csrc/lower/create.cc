// SPDX-License-Identifier: Apache-2.0
// Filling: what doesn't depend on the elements that were there.
#include "python/torch_neuronx/csrc/lower/lowering.h"

namespace tnx {

TNX_LOWER("fill.Scalar", {
  const Meta& out = call.out();
  return {g.broadcast(call.scalar(g, 1, out.type), out.dims, {})};
})
TNX_LOWER("fill.Tensor", {
  const Meta& out = call.out();
  return {g.expand(call.operand(g, 1, out.type), out.dims)};
})
TNX_LOWER("zero", { return {g.zeros(call.out().type, call.out().dims)}; })

namespace {

// arange(start, end, step): the values are in the key, since they are the shape.
std::vector<Value> arange(Graph& g, const Call& call, int start, int step) {
  const Meta& out = call.out();
  const Type type = out.type == kF64 ? kF64 : is_float(out.type) ? kF32 : kS64;
  Value x = g.iota(type, out.dims, 0);
  if (step >= 0) {
    x = g.mul(x, call.scalar(g, static_cast<size_t>(step), type));
  }
  if (start >= 0) {
    x = g.add(x, call.scalar(g, static_cast<size_t>(start), type));
  }
  return {x};
}

}  // namespace

TNX_LOWER_ROW("arange", (Row{.known = {0}}), { return arange(g, call, -1, -1); })
TNX_LOWER_ROW("arange.start", (Row{.known = {0, 1}}), { return arange(g, call, 0, -1); })
TNX_LOWER_ROW("arange.start_step", (Row{.known = {0, 1, 2}}), { return arange(g, call, 0, 2); })

}  // namespace tnx
