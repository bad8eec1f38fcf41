// SPDX-License-Identifier: Apache-2.0
// Softmax, its logarithm, and losses. Formulas are those of torch's documentation.
#include <cmath>

#include "python/torch_neuronx/csrc/lower/reduce.h"

namespace tnx {
namespace {

// The dimension that argument i names; of a 0-d value, none.
Dims one_dim(const Call& call, size_t i, const Value& x) {
  return x.rank() == 0 ? Dims{} : Dims{wrap_dim(call.integer(i), x.rank())};
}

Value floated(Graph& g, const Call& call, size_t i) {
  return g.convert(call.tensor(i), compute_type(call.tensor(i).type));
}

// x minus its largest element along dims, which keeps the exponentials finite.
Value shifted(Graph& g, const Value& x, const Dims& dims) {
  return g.sub(x, fold(g, "maximum", x, dims, true));
}

Value softmax_of(Graph& g, const Value& x, const Dims& dims) {
  const Value e = g.exp(shifted(g, x, dims));
  return g.div(e, fold(g, "add", e, dims, true));
}

}  // namespace

TNX_LOWER("_softmax", {  // x, dim, half_to_float
  const Value x = floated(g, call, 0);
  return {softmax_of(g, x, one_dim(call, 1, x))};
})
TNX_LOWER("_log_softmax", {
  const Value x = floated(g, call, 0);
  const Dims dims = one_dim(call, 1, x);
  const Value y = shifted(g, x, dims);
  return {g.sub(y, g.log(fold(g, "add", g.exp(y), dims, true)))};
})
TNX_LOWER("_safe_softmax", {  // rows of nothing but -inf give 0
  const Value x = g.convert(call.tensor(0), compute_type(call.out().type));
  const Dims dims = one_dim(call, 1, x);
  const Value some =
      g.compare("GT", fold(g, "maximum", x, dims, true), g.constant(x.type, -INFINITY));
  const Value y = softmax_of(g, x, dims);
  const Value nan = g.is_nan(fold(g, "maximum", x, dims, true));
  return {g.select(g.binary("or", some, nan), y, g.like(y, 0))};
})
TNX_LOWER("_softmax_backward_data", {  // grad, y, dim, input_dtype
  const Value grad = floated(g, call, 0);
  const Value y = floated(g, call, 1);
  const Value product = g.mul(grad, y);
  return {g.sub(product, g.mul(y, fold(g, "add", product, one_dim(call, 2, y), true)))};
})
TNX_LOWER("_log_softmax_backward_data", {
  const Value grad = floated(g, call, 0);
  const Value y = floated(g, call, 1);
  return {g.sub(grad, g.mul(g.exp(y), fold(g, "add", grad, one_dim(call, 2, y), true)))};
})

// ---- negative log likelihood --------------------------------------------------------------------

namespace {

enum Reduction : int64_t { kNone, kMean, kSum };

// Classes of an nll_loss: x, target, weight, reduction, ignore_index from argument `at` on.
struct Classes {
  int64_t dim = 0;  // of x, where the classes are
  Value target;     // s64, of x's rank, with 1 class; ignored ones are 0
  Value weight;     // of target's shape, 0 where ignored
  Value ignored;    // of target's shape
  int64_t reduction = kMean;
};

Classes classes_of(Graph& g, const Call& call, size_t at) {
  const Value& x = call.tensor(at);
  Classes c;
  c.dim = x.rank() > 1 ? 1 : 0;
  Dims dims = x.dims;
  dims[static_cast<size_t>(c.dim)] = 1;
  const Value target = g.reshape(g.convert(call.tensor(at + 1), kS64), dims);
  c.ignored = g.compare("EQ", target, g.broadcast(call.scalar(g, at + 4, kS64), dims, {}));
  c.target = g.select(c.ignored, g.like(target, 0), target);
  const Type type = compute_type(x.type);
  c.weight = g.full(type, dims, 1);
  if (call.has(at + 2) && c.target.count() > 0) {
    const Value all = g.convert(call.tensor(at + 2), type);
    const Value flat = g.reshape(c.target, {c.target.count()});
    c.weight = g.reshape(g.index_select(all, flat, 0), dims);
  }
  c.weight = g.select(c.ignored, g.like(c.weight, 0), c.weight);
  c.reduction = call.integer(at + 3);
  return c;
}

// The loss and the sum of the weights.
std::vector<Value> nll_loss(Graph& g, const Call& call) {
  const Value x = floated(g, call, 0);
  const Classes c = classes_of(g, call, 0);
  call.check_range(g, c.target, 0, x.dims[static_cast<size_t>(c.dim)],
                   "Target {} is out of bounds.");
  const Value picked =
      x.count() == 0 ? g.zeros(x.type, c.target.dims) : g.take_along(x, c.target, c.dim);
  const Value loss = g.select(c.ignored, g.like(c.weight, 0), g.neg(g.mul(picked, c.weight)));
  if (c.reduction == kNone) {
    return {g.reshape(loss, call.out(0).dims), g.zeros(x.type, call.out(1).dims)};
  }
  const Value total = fold(g, "add", c.weight, all_dims(c.weight));
  const Value sum = fold(g, "add", loss, all_dims(loss));
  return {c.reduction == kMean ? g.div(sum, total) : sum, total};
}

// grad, x, target, weight, reduction, ignore_index, total_weight
std::vector<Value> nll_loss_backward(Graph& g, const Call& call) {
  const Value& x = call.tensor(1);
  const Classes c = classes_of(g, call, 1);
  const Type type = compute_type(x.type);
  Value grad = call.operand(g, 0, type);
  grad = c.reduction == kNone ? g.reshape(grad, c.target.dims) : g.reshape(grad, {});
  if (c.reduction == kMean) {
    grad = g.div(grad, g.reshape(call.operand(g, 6, type), {}));
  }
  const Value there = g.select(c.ignored, g.like(c.weight, 0), g.neg(g.mul(c.weight, grad)));
  const Value hit = g.compare("EQ", g.iota(kS64, x.dims, c.dim), c.target);
  return {g.select(hit, there, g.zeros(type, x.dims))};
}

}  // namespace

TNX_LOWER("nll_loss_forward", { return nll_loss(g, call); })
TNX_LOWER("nll_loss2d_forward", { return nll_loss(g, call); })
TNX_LOWER("nll_loss_backward", { return nll_loss_backward(g, call); })
TNX_LOWER("nll_loss2d_backward", { return nll_loss_backward(g, call); })

// ---- losses element by element ------------------------------------------------------------------

namespace {

// Two tensors in the type in which the loss is computed.
struct Operands {
  Value x;
  Value target;
};

Operands operands_of(Graph& g, const Call& call, size_t at) {
  const Type type = compute_type(call.out().type);
  return {call.operand(g, at, type), call.operand(g, at + 1, type)};
}

Value reduced(Graph& g, const Value& loss, int64_t reduction) {
  switch (reduction) {
    case kMean:
      return mean_of(g, loss, all_dims(loss));
    case kSum:
      return fold(g, "add", loss, all_dims(loss));
    default:
      return loss;
  }
}

// What a backward pass multiplies with: the gradient, divided by the number of elements for a mean.
Value incoming(Graph& g, const Call& call, int64_t reduction, const Dims& dims) {
  Value grad = call.operand(g, 0, compute_type(call.out().type));
  if (reduction == kMean) {
    grad = g.div(grad, g.like(grad, static_cast<double>(count_of(dims))));
  }
  return g.expand(grad, dims);
}

Value difference(Graph& g, const Operands& o) { return g.sub(o.x, o.target); }

}  // namespace

TNX_LOWER("mse_loss", {  // x, target, reduction
  const Value d = difference(g, operands_of(g, call, 0));
  return {reduced(g, g.mul(d, d), call.integer(2))};
})
TNX_LOWER("mse_loss_backward", {  // grad, x, target, reduction
  const Value d = difference(g, operands_of(g, call, 1));
  const Value grad = incoming(g, call, call.integer(3), d.dims);
  return {g.mul(g.mul(g.like(d, 2), d), grad)};
})
TNX_LOWER("smooth_l1_loss", {  // x, target, reduction, beta
  const Value z = g.unary("abs", difference(g, operands_of(g, call, 0)));
  const Value beta = call.scalar(g, 3, z.type);
  const Value half = g.like(z, 0.5);
  const Value square = g.div(g.mul(g.mul(half, z), z), beta);
  const Value line = g.sub(z, g.mul(half, beta));
  return {reduced(g, g.select(g.compare("LT", z, beta), square, line), call.integer(2))};
})
TNX_LOWER("smooth_l1_loss_backward", {  // grad, x, target, reduction, beta
  const Value d = difference(g, operands_of(g, call, 1));
  const Value grad = incoming(g, call, call.integer(3), d.dims);
  const Value beta = call.scalar(g, 4, d.type);
  const Value middle = g.div(g.mul(grad, d), beta);
  return {g.select(g.compare("LE", d, g.neg(beta)), g.neg(grad),
                   g.select(g.compare("GE", d, beta), grad, middle))};
})
TNX_LOWER("huber_loss", {  // x, target, reduction, delta
  const Value z = g.unary("abs", difference(g, operands_of(g, call, 0)));
  const Value delta = call.scalar(g, 3, z.type);
  const Value half = g.like(z, 0.5);
  const Value line = g.mul(delta, g.sub(z, g.mul(half, delta)));
  const Value square = g.mul(g.mul(half, z), z);
  return {reduced(g, g.select(g.compare("LE", z, delta), square, line), call.integer(2))};
})
TNX_LOWER("huber_loss_backward", {  // grad, x, target, reduction, delta
  const Value d = difference(g, operands_of(g, call, 1));
  const Value grad = incoming(g, call, call.integer(3), d.dims);
  const Value delta = call.scalar(g, 4, d.type);
  const Value outside = g.mul(grad, delta);
  return {g.select(g.compare("LE", d, g.neg(delta)), g.neg(outside),
                   g.select(g.compare("GE", d, delta), outside, g.mul(grad, d)))};
})
TNX_LOWER("binary_cross_entropy", {  // x, target, weight, reduction; logarithms end at -100
  const auto [x, target] = operands_of(g, call, 0);
  if (x.count() > 0) {  // NaN is not in the range either
    const Value inside =
        g.binary("and", g.compare("GE", x, g.like(x, 0)), g.compare("LE", x, g.like(x, 1)));
    call.check(g, g.reduce("or", g.logical_not(inside), all_dims(x)),
               "all elements of input should be between 0 and 1");
  }
  const Value floor = g.like(x, -100);
  const Value yes = g.max(g.log(x), floor);
  const Value no = g.max(g.unary("log-plus-one", g.neg(x)), floor);
  Value loss = g.sub(g.mul(g.sub(target, g.like(target, 1)), no), g.mul(target, yes));
  if (call.has(2)) {
    loss = g.mul(loss, call.operand(g, 2, loss.type));
  }
  return {reduced(g, loss, call.integer(3))};
})
TNX_LOWER("binary_cross_entropy_backward", {  // grad, x, target, weight, reduction
  const auto [x, target] = operands_of(g, call, 1);
  Value grad = incoming(g, call, call.integer(4), x.dims);
  if (call.has(3)) {
    grad = g.mul(grad, call.operand(g, 3, grad.type));
  }
  const Value spread = g.max(g.mul(g.sub(g.like(x, 1), x), x), g.like(x, 1e-12));
  return {g.div(g.mul(grad, g.sub(x, target)), spread)};
})
TNX_LOWER("binary_cross_entropy_with_logits", {  // x, target, weight, pos_weight, reduction
  const auto [x, target] = operands_of(g, call, 0);
  const Value one = g.like(target, 1);
  // log(1 + exp(-x)) without overflow.
  const Value tail = g.add(g.unary("log-plus-one", g.exp(g.neg(g.unary("abs", x)))),
                           g.max(g.neg(x), g.like(x, 0)));
  Value loss = g.mul(g.sub(one, target), x);
  if (call.has(3)) {
    const Value weight = call.operand(g, 3, x.type);
    const Value factor = g.add(g.mul(g.sub(weight, g.like(weight, 1)), target), one);
    loss = g.add(loss, g.mul(factor, tail));
  } else {
    loss = g.add(loss, tail);
  }
  if (call.has(2)) {
    loss = g.mul(loss, call.operand(g, 2, loss.type));
  }
  return {reduced(g, loss, call.integer(4))};
})
TNX_LOWER("soft_margin_loss", {  // x, target, reduction
  const auto [x, target] = operands_of(g, call, 0);
  const Value z = g.exp(g.neg(g.mul(target, x)));
  return {reduced(g, g.unary("log-plus-one", z), call.integer(2))};
})
TNX_LOWER("soft_margin_loss_backward", {  // grad, x, target, reduction
  const auto [x, target] = operands_of(g, call, 1);
  const Value z = g.exp(g.neg(g.mul(target, x)));
  const Value grad = incoming(g, call, call.integer(3), z.dims);
  return {g.div(g.mul(g.mul(g.neg(target), z), grad), g.add(z, g.like(z, 1)))};
})

}  // namespace tnx
