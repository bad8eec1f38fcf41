// SPDX-License-Identifier: Apache-2.0
// Functions of one or two elements that losses and distributions need. Formulas are those of
// torch's documentation.
#include <cmath>

#include "python/torch_neuronx/csrc/lower/lowering.h"

namespace tnx {
namespace {

// x * f(y), 0 where x is 0 unless y is a NaN.
std::vector<Value> times_log(Graph& g, const Call& call, const char* opcode) {
  const Type type = compute_type(call.out().type);
  const Value x = g.expand(call.operand(g, 0, type), call.out().dims);
  const Value y = g.expand(call.operand(g, 1, type), call.out().dims);
  const Value product =
      g.select(g.compare("EQ", x, g.like(x, 0)), g.like(x, 0), g.mul(x, g.unary(opcode, y)));
  return {g.select(g.is_nan(y), y, product)};
}

}  // namespace

TNX_LOWER("xlogy.Tensor", { return times_log(g, call, "log"); })
TNX_LOWER("xlogy.Scalar_Self", { return times_log(g, call, "log"); })
TNX_LOWER("xlogy.Scalar_Other", { return times_log(g, call, "log"); })
TNX_LOWER("special_xlog1py", { return times_log(g, call, "log-plus-one"); })
TNX_LOWER("special_xlog1py.self_scalar", { return times_log(g, call, "log-plus-one"); })
TNX_LOWER("special_xlog1py.other_scalar", { return times_log(g, call, "log-plus-one"); })

TNX_LOWER("logit", {  // x, eps
  Value x = g.convert(call.tensor(0), compute_type(call.out().type));
  const Value one = g.like(x, 1);
  if (call.has(1)) {
    const Value eps = call.scalar(g, 1, x.type);
    x = g.min(g.max(x, eps), g.sub(one, eps));
  }
  return {g.log(g.div(x, g.sub(one, x)))};
})
TNX_LOWER("logit_backward", {  // grad, x, eps
  const Type type = compute_type(call.out().type);
  const Value grad = call.operand(g, 0, type);
  const Value x = call.operand(g, 1, type);
  const Value one = g.like(x, 1);
  const Value slope = g.div(grad, g.mul(x, g.sub(one, x)));
  if (!call.has(2)) {
    const Value inside = g.binary("and", g.compare("GE", x, g.like(x, 0)), g.compare("LE", x, one));
    return {g.select(inside, slope, g.like(x, NAN))};
  }
  const Value eps = call.scalar(g, 2, type);
  const Value inside =
      g.binary("and", g.compare("GE", x, eps), g.compare("LE", x, g.sub(one, eps)));
  return {g.select(inside, slope, g.like(x, 0))};
})
TNX_LOWER("special_entr", {  // -x log x; 0 for 0, -inf below
  const Value x = g.convert(call.tensor(0), compute_type(call.out().type));
  const Value zero = g.like(x, 0);
  const Value rest = g.select(g.compare("EQ", x, zero), zero, g.like(x, -INFINITY));
  const Value y = g.select(g.compare("GT", x, zero), g.neg(g.mul(x, g.log(x))), rest);
  return {g.select(g.is_nan(x), x, y)};
})

}  // namespace tnx
