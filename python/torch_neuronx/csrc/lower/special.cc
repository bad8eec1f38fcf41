// SPDX-License-Identifier: Apache-2.0
// Element by element, less common: activations and their derivatives, special functions, shifts.
// Formulas are those of torch's documentation unless a comment names another source.
#include <cmath>
#include <numbers>

#include "python/torch_neuronx/csrc/lower/lowering.h"

namespace tnx {
namespace {

Value zeros_like(Graph& g, const Value& x) { return g.like(x, 0); }

Value sign_bit(Graph& g, const Value& x) {  // true for -0 and negative NaNs too
  const Value bits = g.bitcast(g.convert(x, kF32), kS32);
  return g.compare("LT", bits, g.like(bits, 0));
}

Value softplus(Graph& g, const Value& x) {  // without overflow
  return g.add(g.max(x, g.like(x, 0)), g.unary("log-plus-one", g.exp(g.neg(g.unary("abs", x)))));
}

Value polynomial(Graph& g, const Value& x, std::initializer_list<double> coefficients) {
  Value p = g.like(x, *coefficients.begin());
  for (const double* c = coefficients.begin() + 1; c != coefficients.end(); ++c) {
    p = g.add(g.like(x, *c), g.mul(p, x));
  }
  return p;
}

// M. Giles, "Approximating the erfinv function", GPU Computing Gems, 2012: single precision.
Value erfinv(Graph& g, const Value& x) {
  const Value one = g.like(x, 1);
  const Value w = g.neg(g.log(g.mul(g.sub(one, x), g.add(one, x))));
  const Value centre =
      polynomial(g, g.sub(w, g.like(w, 2.5)),
                 {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                  -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  const Value tail =
      polynomial(g, g.sub(g.sqrt(w), g.like(w, 3)),
                 {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                  -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  const Value y = g.mul(g.select(g.compare("LT", w, g.like(w, 5)), centre, tail), x);
  const Value at_end = g.compare("EQ", g.unary("abs", x), one);
  return g.select(at_end, g.mul(x, g.like(x, HUGE_VAL)), y);
}

// Whichever isn't a NaN, else the larger (smaller).
std::vector<Value> extreme_number(Graph& g, const Call& call, const char* opcode) {
  const Type type = call.out().type;
  const Value a = call.operand(g, 0, type);
  const Value b = call.operand(g, 1, type);
  const Value y = g.binary(opcode, a, b);
  if (!is_float(type)) {
    return {y};
  }
  return {
      g.select(g.is_nan(g.expand(a, y.dims)), b, g.select(g.is_nan(g.expand(b, y.dims)), a, y))};
}

std::vector<Value> log_add_exp(Graph& g, const Call& call, double base) {
  const Type type = result_compute(call);
  const Value a = call.operand(g, 0, type);
  const Value b = call.operand(g, 1, type);
  const Value largest = g.max(a, b);
  const Value scale = g.like(largest, std::log(base));
  const Value difference = g.neg(g.unary("abs", g.sub(a, b)));
  const Value y =
      g.add(largest, g.div(g.unary("log-plus-one", g.exp(g.mul(difference, scale))), scale));
  // inf - inf is no difference.
  return {g.select(g.compare("EQ", a, b),
                   g.add(largest, g.div(g.like(largest, std::numbers::ln2), scale)), y)};
}

std::vector<Value> times_log(Graph& g, const Call& call, const char* log) {
  const Type type = result_compute(call);
  const Value x = call.operand(g, 0, type);
  const Value y = call.operand(g, 1, type);
  const Value product = g.mul(x, g.unary(log, y));
  const Value zero = zeros_like(g, product);
  const Value is_zero = g.compare("EQ", g.expand(x, product.dims), zero);
  return {g.select(g.is_nan(g.expand(y, product.dims)), g.add(product, y),
                   g.select(is_zero, zero, product))};
}

std::vector<Value> shift(Graph& g, const Call& call, bool left) {
  const Type type = call.out().type;
  const Value a = call.operand(g, 0, type);
  const Value b = call.operand(g, 1, type);
  return {g.binary(left                      ? "shift-left"
                   : is_signed_integer(type) ? "shift-right-arithmetic"
                                             : "shift-right-logical",
                   a, b)};
}

double largest_finite(Type type) {
  switch (type) {
    case kF16:
      return 65504;
    case kBF16:
      return 3.3895313892515355e38;
    default:
      return 3.4028234663852886e38;
  }
}

}  // namespace

TNX_LOWER("erfinv", { return {erfinv(g, g.convert(call.tensor(0), result_compute(call)))}; })
TNX_LOWER("fmax", { return extreme_number(g, call, "maximum"); })
TNX_LOWER("fmin", { return extreme_number(g, call, "minimum"); })
TNX_LOWER("logaddexp", { return log_add_exp(g, call, std::numbers::e); })
TNX_LOWER("logaddexp2", { return log_add_exp(g, call, 2); })
TNX_LOWER("xlogy.Tensor", { return times_log(g, call, "log"); })
TNX_LOWER("special_xlog1py", { return times_log(g, call, "log-plus-one"); })
TNX_LOWER("bitwise_left_shift.Tensor", { return shift(g, call, true); })
TNX_LOWER("bitwise_right_shift.Tensor", { return shift(g, call, false); })
TNX_LOWER("__lshift__.Tensor", { return shift(g, call, true); })
TNX_LOWER("__lshift__.Scalar", { return shift(g, call, true); })
TNX_LOWER("__rshift__.Tensor", { return shift(g, call, false); })
TNX_LOWER("__rshift__.Scalar", { return shift(g, call, false); })
TNX_LOWER("hypot", {
  const Type type = result_compute(call);
  const Value a = g.unary("abs", call.operand(g, 0, type));
  const Value b = g.unary("abs", call.operand(g, 1, type));
  const Value large = g.max(a, b);
  const Value small = g.min(a, b);
  const Value ratio = g.div(small, large);
  const Value one = g.like(large, 1);
  const Value y = g.mul(large, g.sqrt(g.add(one, g.mul(ratio, ratio))));
  // 0 / 0 and inf / inf; an infinite side wins over a NaN, as in C.
  const Value same =
      g.select(g.compare("EQ", small, large), g.mul(large, g.like(large, std::numbers::sqrt2)), y);
  const Value inf = g.like(same, HUGE_VAL);
  return {g.select(g.binary("or", g.compare("EQ", g.expand(a, same.dims), inf),
                            g.compare("EQ", g.expand(b, same.dims), inf)),
                   inf, same)};
})
TNX_LOWER("copysign.Tensor", {
  const Type type = result_compute(call);
  const Value a = g.unary("abs", call.operand(g, 0, type));
  const Value b = call.operand(g, 1, type);
  return {g.select(sign_bit(g, b), g.neg(a), a)};
})
TNX_LOWER("heaviside", {
  const Value& x = call.tensor(0);
  const Value zero = zeros_like(g, x);
  const Value step = g.select(g.compare("GT", x, zero), g.like(x, 1), zero);
  return {g.select(g.compare("EQ", x, zero), call.operand(g, 1, x.type), step)};
})
TNX_LOWER("sinc", {
  const Value x = g.mul(g.convert(call.tensor(0), result_compute(call)),
                        g.constant(result_compute(call), std::numbers::pi));
  const Value zero = zeros_like(g, x);
  return {g.select(g.compare("EQ", x, zero), g.like(x, 1), g.div(g.unary("sine", x), x))};
})
TNX_LOWER("special_entr", {
  const Value x = g.convert(call.tensor(0), result_compute(call));
  const Value zero = zeros_like(g, x);
  const Value y = g.neg(g.mul(x, g.log(x)));
  const Value low = g.select(g.compare("EQ", x, zero), zero, g.like(x, -HUGE_VAL));
  return {g.select(g.binary("or", g.compare("GT", x, zero), g.is_nan(x)), y, low)};
})
TNX_LOWER_ROW("round.decimals", (Row{.known = {1}}), {
  const Value& given = call.tensor(0);
  if (!is_float(given.type)) {
    return {given};
  }
  const Value x = g.convert(given, compute_type(given.type));
  const int64_t decimals = call.integer(1);
  const Value scale = g.like(x, std::pow(10.0, static_cast<double>(std::abs(decimals))));
  const Value scaled = decimals >= 0 ? g.mul(x, scale) : g.div(x, scale);
  const Value rounded = g.unary("round-nearest-even", scaled);
  return {decimals >= 0 ? g.div(rounded, scale) : g.mul(rounded, scale)};
})
TNX_LOWER_ROW("nan_to_num", (Row{.known = {1, 2, 3}}), {
  const Value& x = call.tensor(0);
  if (!is_float(x.type)) {
    return {x};
  }
  const double most = largest_finite(x.type);
  const auto value = [&](size_t i, double other) {
    return g.constant(x.type, call.has(i) ? call.number(i) : other);
  };
  const Value inf = g.constant(x.type, HUGE_VAL);
  const Value minus = g.constant(x.type, -HUGE_VAL);
  Value y = g.select(g.compare("EQ", x, inf), value(2, most), x);
  y = g.select(g.compare("EQ", x, minus), value(3, -most), y);
  return {g.select(g.is_nan(x), value(1, 0), y)};
})
TNX_LOWER_ROW("logit", (Row{.known = {1}}), {
  Value x = g.convert(call.tensor(0), result_compute(call));
  if (call.has(1)) {
    const double eps = call.number(1);
    x = g.min(g.max(x, g.like(x, eps)), g.like(x, 1 - eps));
  }
  return {g.log(g.div(x, g.sub(g.like(x, 1), x)))};
})
TNX_LOWER_ROW("logit_backward", (Row{.known = {2}}), {  // grad, x, eps
  const Type type = result_compute(call);
  const Value grad = call.operand(g, 0, type);
  const Value x = call.operand(g, 1, type);
  const Value one = g.like(x, 1);
  const Value y = g.div(grad, g.mul(x, g.sub(one, x)));
  const double eps = call.has(2) ? call.number(2) : 0;
  const Value outside =
      g.binary("or", g.compare("LT", x, g.like(x, eps)), g.compare("GT", x, g.like(x, 1 - eps)));
  return {g.select(outside, g.like(x, call.has(2) ? 0 : NAN), y)};
})

// ---- activations --------------------------------------------------------------------------------

TNX_LOWER("mish", {
  const Value x = g.convert(call.tensor(0), result_compute(call));
  return {g.mul(x, g.tanh(softplus(g, x)))};
})
TNX_LOWER("mish_backward", {
  const Type type = result_compute(call);
  const Value grad = call.operand(g, 0, type);
  const Value x = call.operand(g, 1, type);
  const Value t = g.tanh(softplus(g, x));
  const Value slope = g.mul(g.mul(x, g.sigmoid(x)), g.sub(g.like(x, 1), g.mul(t, t)));
  return {g.mul(grad, g.add(t, slope))};
})
TNX_LOWER("elu_backward", {  // grad, alpha, scale, input_scale, is_result, x or result
  const Type type = result_compute(call);
  const Value grad = call.operand(g, 0, type);
  const Value x = call.operand(g, 5, type);
  const Value low_scale = g.mul(call.scalar(g, 1, type), call.scalar(g, 2, type));
  const Value inner = call.scalar(g, 3, type);
  const Value low = call.flag(4)
                        ? g.mul(g.mul(grad, inner), g.add(x, low_scale))
                        : g.mul(g.mul(g.mul(grad, inner), low_scale), g.exp(g.mul(x, inner)));
  return {
      g.select(g.compare("LE", x, zeros_like(g, x)), low, g.mul(grad, call.scalar(g, 2, type)))};
})
TNX_LOWER("hardswish_backward", {
  const Type type = result_compute(call);
  const Value grad = call.operand(g, 0, type);
  const Value x = call.operand(g, 1, type);
  const Value middle = g.mul(grad, g.add(g.div(x, g.like(x, 3)), g.like(x, 0.5)));
  return {g.select(g.compare("LE", x, g.like(x, -3)), zeros_like(g, x),
                   g.select(g.compare("LT", x, g.like(x, 3)), middle, grad))};
})
TNX_LOWER("hardsigmoid_backward", {
  const Type type = result_compute(call);
  const Value grad = call.operand(g, 0, type);
  const Value x = call.operand(g, 1, type);
  const Value inside =
      g.binary("and", g.compare("GT", x, g.like(x, -3)), g.compare("LT", x, g.like(x, 3)));
  return {g.select(inside, g.div(grad, g.like(grad, 6)), zeros_like(g, grad))};
})
TNX_LOWER("hardshrink", {
  const Value& x = call.tensor(0);
  const Value limit = call.scalar(g, 1, x.type);
  return {g.select(g.compare("LE", g.unary("abs", x), limit), zeros_like(g, x), x)};
})
TNX_LOWER("hardshrink_backward", {
  const Value& grad = call.tensor(0);
  const Value& x = call.tensor(1);
  const Value limit = call.scalar(g, 2, x.type);
  return {g.select(g.compare("LE", g.unary("abs", x), limit), zeros_like(g, grad), grad)};
})
TNX_LOWER("softshrink", {
  const Value& x = call.tensor(0);
  const Value limit = call.scalar(g, 1, x.type);
  const Value low =
      g.select(g.compare("LT", x, g.neg(limit)), g.add(x, limit), g.mul(x, zeros_like(g, x)));
  return {g.select(g.compare("GT", x, limit), g.sub(x, limit), low)};
})
TNX_LOWER("softshrink_backward", {
  const Value& grad = call.tensor(0);
  const Value& x = call.tensor(1);
  const Value limit = call.scalar(g, 2, x.type);
  return {g.select(g.compare("LE", g.unary("abs", x), limit), zeros_like(g, grad), grad)};
})
TNX_LOWER("_prelu_kernel", {
  const Value& x = call.tensor(0);
  return {g.select(g.compare("GT", x, zeros_like(g, x)), x, g.mul(x, call.operand(g, 1, x.type)))};
})
TNX_LOWER("_prelu_kernel_backward", {  // grad, x, weight
  const Value& grad = call.tensor(0);
  const Value& x = call.tensor(1);
  const Value positive = g.compare("GT", x, zeros_like(g, x));
  return {g.select(positive, grad, g.mul(grad, call.operand(g, 2, x.type))),
          g.select(positive, zeros_like(g, x), g.mul(x, grad))};
})
TNX_LOWER("glu", {
  const Value& x = call.tensor(0);
  const int64_t dim = wrap_dim(call.integer(1), x.rank());
  const int64_t half = x.dims[static_cast<size_t>(dim)] / 2;
  const Type type = compute_type(x.type);
  return {g.mul(g.convert(g.narrow(x, dim, 0, half), type),
                g.sigmoid(g.convert(g.narrow(x, dim, half, half), type)))};
})
TNX_LOWER("glu_backward", {  // grad, x, dim
  const Value& x = call.tensor(1);
  const int64_t dim = wrap_dim(call.integer(2), x.rank());
  const int64_t half = x.dims[static_cast<size_t>(dim)] / 2;
  const Type type = compute_type(x.type);
  const Value grad = call.operand(g, 0, type);
  const Value a = g.convert(g.narrow(x, dim, 0, half), type);
  const Value s = g.sigmoid(g.convert(g.narrow(x, dim, half, half), type));
  const Value second = g.mul(g.mul(g.mul(g.sub(g.like(s, 1), s), s), grad), a);
  return {g.concat({g.mul(grad, s), second}, dim)};
})

TNX_LOWER("trace", {
  const Value& x = call.tensor(0);
  const Value diagonal = g.compare("EQ", g.iota(kS64, x.dims, 0), g.iota(kS64, x.dims, 1));
  const Value y = g.convert(x, call.out().type);
  return {g.sum(g.select(diagonal, y, zeros_like(g, y)), {0, 1})};
})

}  // namespace tnx
