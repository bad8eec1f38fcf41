// SPDX-License-Identifier: Apache-2.0
// Element by element: arithmetic, comparison, activation functions and their derivatives.
// Formulas are those of torch's documentation.
#include <cmath>
#include <numbers>

#include "python/torch_neuronx/csrc/lower/lowering.h"

namespace tnx {
namespace {

using std::numbers::inv_sqrtpi;
using std::numbers::sqrt2;

// Arguments 0 and 1 in the result's type, or that in which it is computed.
struct Pair {
  Value a;
  Value b;
};

Pair operands(Graph& g, const Call& call, Type type) {
  return {call.operand(g, 0, type), call.operand(g, 1, type)};
}

// a + alpha * b and a - alpha * b; pred adds as "or".
std::vector<Value> add_scaled(Graph& g, const Call& call, const char* opcode, bool swapped) {
  const Type type = call.out().type == kPred ? kU8 : result_compute(call);
  auto [a, b] = operands(g, call, type);
  if (swapped) {
    std::swap(a, b);
  }
  const size_t alpha = 2;
  if (call.has(alpha)) {
    b = g.mul(b, call.scalar(g, alpha, type));
  }
  return {g.binary(opcode, a, b)};
}

}  // namespace

// alpha is looked at: 1 needs no product.
#define TNX_ADD(name, opcode, swapped) \
  TNX_LOWER(name, { return add_scaled(g, call, opcode, swapped); })
TNX_ADD("add.Tensor", "add", false)
TNX_ADD("add.Scalar", "add", false)
TNX_ADD("sub.Tensor", "subtract", false)
TNX_ADD("sub.Scalar", "subtract", false)
TNX_ADD("rsub.Tensor", "subtract", true)
TNX_ADD("rsub.Scalar", "subtract", true)

namespace {

std::vector<Value> simple_binary(Graph& g, const Call& call, const char* opcode) {
  const auto [a, b] = operands(g, call, result_compute(call));
  return {g.binary(opcode, a, b)};
}

// Quotient rounded to minus infinity (torch: floor) or to 0 (trunc). An integer divisor of 0 does
// not raise, as on every accelerator: the device can't.
Value divide_rounded(Graph& g, const Value& a, const Value& b, bool floor) {
  const Type type = a.type;
  if (is_float(type)) {
    // As torch computes it: the remainder decides, so that the quotient's rounding doesn't.
    if (!floor) {
      const Value q = g.div(a, b);
      return g.select(g.compare("LT", q, g.like(q, 0)), g.unary("ceil", q), g.unary("floor", q));
    }
    const Value remainder = g.binary("remainder", a, b);
    const Value zero = g.like(remainder, 0);
    Value q = g.div(g.sub(a, remainder), b);
    const Value wrong = g.binary("and", g.compare("NE", remainder, zero),
                                 g.compare("NE", g.compare("LT", g.expand(b, remainder.dims), zero),
                                           g.compare("LT", remainder, zero)));
    q = g.select(wrong, g.sub(q, g.like(q, 1)), q);
    const Value down = g.unary("floor", q);
    const Value near = g.select(g.compare("GT", g.sub(q, down), g.like(q, 0.5)),
                                g.add(down, g.like(down, 1)), down);
    const Value exact = g.div(a, b);
    return g.select(g.compare("EQ", g.expand(b, exact.dims), g.like(exact, 0)), exact, near);
  }
  const Value q = g.div(a, b);
  if (!floor || !is_signed_integer(type)) {
    return q;
  }
  const Value remainder = g.binary("remainder", a, b);
  const Value zero = g.like(remainder, 0);
  const Value wrong = g.binary("and", g.compare("NE", remainder, zero),
                               g.compare("NE", g.compare("LT", g.expand(b, remainder.dims), zero),
                                         g.compare("LT", remainder, zero)));
  return g.select(wrong, g.sub(q, g.like(q, 1)), q);
}

std::vector<Value> divide_mode(Graph& g, const Call& call) {
  const auto [a, b] = operands(g, call, result_compute(call));
  if (!call.has(2)) {
    return {g.div(a, b)};
  }
  return {divide_rounded(g, a, b, call.text(2) == "floor")};
}

// The sign of the result is that of the divisor.
std::vector<Value> remainder(Graph& g, const Call& call) {
  const auto [a, b] = operands(g, call, result_compute(call));
  const Value r = g.binary("remainder", a, b);
  const Value zero = g.like(r, 0);
  const Value wrong = g.binary(
      "and", g.compare("NE", r, zero),
      g.compare("NE", g.compare("LT", g.expand(b, r.dims), zero), g.compare("LT", r, zero)));
  return {g.select(wrong, g.add(r, b), r)};
}

std::vector<Value> power(Graph& g, const Call& call) {
  const auto [a, b] = operands(g, call, result_compute(call));
  if (call.is_tensor(0) && !call.is_tensor(1) && call.scalar_info(1).known) {
    const double e = call.number(1);
    if (e == 2) {
      return {g.mul(a, a)};
    }
    if (e == 3) {
      return {g.mul(g.mul(a, a), a)};
    }
    if (e == 1) {
      return {a};
    }
    if (is_float(a.type) && e == 0.5) {
      return {g.sqrt(a)};
    }
    if (is_float(a.type) && e == -1) {
      return {g.div(g.like(a, 1), a)};
    }
    if (is_float(a.type) && e == -0.5) {
      return {g.div(g.like(a, 1), g.sqrt(a))};
    }
    if (is_float(a.type) && e == -2) {
      return {g.div(g.like(a, 1), g.mul(a, a))};
    }
  }
  return {g.binary("power", a, b)};
}

}  // namespace

#define TNX_BINARY(name, opcode) TNX_LOWER(name, { return simple_binary(g, call, opcode); })
TNX_BINARY("mul.Tensor", call.out().type == kPred ? "and" : "multiply")
TNX_BINARY("mul.Scalar", call.out().type == kPred ? "and" : "multiply")
TNX_BINARY("div.Tensor", "divide")
TNX_BINARY("div.Scalar", "divide")
TNX_BINARY("maximum", call.out().type == kPred ? "or" : "maximum")
TNX_BINARY("minimum", call.out().type == kPred ? "and" : "minimum")
TNX_BINARY("atan2", "atan2")
TNX_LOWER("div.Tensor_mode", { return divide_mode(g, call); })
TNX_LOWER("div.Scalar_mode", { return divide_mode(g, call); })
TNX_LOWER("floor_divide", {
  const auto [a, b] = operands(g, call, result_compute(call));
  return {divide_rounded(g, a, b, true)};
})
TNX_LOWER("remainder.Tensor", { return remainder(g, call); })
TNX_LOWER("remainder.Scalar", { return remainder(g, call); })
TNX_LOWER("fmod.Tensor", {
  const auto [a, b] = operands(g, call, result_compute(call));
  return {g.binary("remainder", a, b)};
})
TNX_LOWER_ROW("pow.Tensor_Scalar", (Row{.known = {1}}), { return power(g, call); })
TNX_LOWER("pow.Scalar", { return power(g, call); })
TNX_LOWER("pow.Tensor_Tensor", { return power(g, call); })

// ---- bits and logic -----------------------------------------------------------------------------

#define TNX_BITS(name, opcode)                              \
  TNX_LOWER(name, {                                         \
    const auto [a, b] = operands(g, call, call.out().type); \
    return {g.binary(opcode, a, b)};                        \
  })
TNX_BITS("bitwise_and.Tensor", "and")
TNX_BITS("bitwise_and.Scalar", "and")
TNX_BITS("bitwise_or.Tensor", "or")
TNX_BITS("bitwise_or.Scalar", "or")
TNX_BITS("bitwise_xor.Tensor", "xor")
TNX_BITS("bitwise_xor.Scalar", "xor")
TNX_LOWER("bitwise_not", { return {g.logical_not(call.tensor(0))}; })

#define TNX_LOGICAL(name, opcode) \
  TNX_LOWER(name,                 \
            { return {g.binary(opcode, call.operand(g, 0, kPred), call.operand(g, 1, kPred))}; })
TNX_LOGICAL("logical_and", "and")
TNX_LOGICAL("logical_or", "or")
TNX_LOGICAL("logical_xor", "xor")
TNX_LOWER("logical_not", { return {g.logical_not(g.convert(call.tensor(0), kPred))}; })

namespace {

// Type in which two arguments are compared: that of the tensor with dimensions, of the wider
// category and width of both.
Type common_type(const Call& call) {
  const auto rank_of = [](Type type) {  // category, then width
    const int category = is_float(type) ? 2 : type == kPred ? 0 : 1;
    return category * 100 + static_cast<int>(bytes_of(type)) * 2 +
           (is_signed_integer(type) ? 1 : 0);
  };
  if (!call.is_tensor(0)) {
    return call.tensor(1).type;
  }
  const Value& a = call.tensor(0);
  if (!call.is_tensor(1)) {
    const Number::Kind kind = call.scalar_info(1).kind;
    if (kind == Number::Kind::kFloat && !is_float(a.type)) {
      return kF32;
    }
    if (kind == Number::Kind::kInt && a.type == kPred) {
      return kS64;
    }
    return a.type;
  }
  const Value& b = call.tensor(1);
  // bf16 with f16, u8 with s8: neither holds the other.
  if (a.type != b.type && is_float(a.type) && is_float(b.type) && bytes_of(a.type) == 2 &&
      bytes_of(b.type) == 2) {
    return kF32;
  }
  if (is_integer(a.type) && is_integer(b.type) &&
      is_signed_integer(a.type) != is_signed_integer(b.type)) {
    return bytes_of(a.type) <= 2 && bytes_of(b.type) <= 2 ? kS32 : kS64;
  }
  return rank_of(a.type) >= rank_of(b.type) ? a.type : b.type;
}

std::vector<Value> compare(Graph& g, const Call& call, const char* direction) {
  const Type type = common_type(call);
  return {g.compare(direction, call.operand(g, 0, type), call.operand(g, 1, type))};
}

}  // namespace

#define TNX_COMPARE(name, direction)                                 \
  TNX_LOWER(name ".Tensor", { return compare(g, call, direction); }) \
  TNX_COMPARE_SCALAR(name, direction)
#define TNX_COMPARE_SCALAR(name, direction)                                                        \
  static const bool TNX_CONCAT(scalar_, __LINE__) = [] {                                           \
    add_row(name ".Scalar",                                                                        \
            Row{.lower = [](Graph& g, const Call& call) { return compare(g, call, direction); }}); \
    return true;                                                                                   \
  }();
TNX_COMPARE("eq", "EQ")
TNX_COMPARE("ne", "NE")
TNX_COMPARE("lt", "LT")
TNX_COMPARE("le", "LE")
TNX_COMPARE("gt", "GT")
TNX_COMPARE("ge", "GE")

// ---- functions of one element -------------------------------------------------------------------

#define TNX_UNARY(name, opcode) \
  TNX_LOWER(name, { return {g.unary(opcode, g.convert(call.tensor(0), result_compute(call)))}; })
TNX_UNARY("exp", "exponential")
TNX_UNARY("expm1", "exponential-minus-one")
TNX_UNARY("log", "log")
TNX_UNARY("log1p", "log-plus-one")
TNX_UNARY("sqrt", "sqrt")
TNX_UNARY("rsqrt", "rsqrt")
TNX_UNARY("sin", "sine")
TNX_UNARY("cos", "cosine")
TNX_UNARY("tan", "tan")
TNX_UNARY("asin", "asin")
TNX_UNARY("acos", "acos")
TNX_UNARY("atan", "atan")
TNX_UNARY("sinh", "sinh")
TNX_UNARY("cosh", "cosh")
TNX_UNARY("asinh", "asinh")
TNX_UNARY("acosh", "acosh")
TNX_UNARY("atanh", "atanh")
TNX_UNARY("tanh", "tanh")
TNX_UNARY("sigmoid", "logistic")
TNX_UNARY("erf", "erf")
TNX_UNARY("neg", "negate")

namespace {

std::vector<Value> rounded(Graph& g, const Call& call, const char* opcode) {
  const Value& x = call.tensor(0);
  return {is_float(x.type) ? g.unary(opcode, g.convert(x, compute_type(x.type))) : x};
}

}  // namespace

TNX_LOWER("floor", { return rounded(g, call, "floor"); })
TNX_LOWER("ceil", { return rounded(g, call, "ceil"); })
TNX_LOWER("round", { return rounded(g, call, "round-nearest-even"); })
TNX_LOWER("trunc", {
  const Value& x = call.tensor(0);
  if (!is_float(x.type)) {
    return {x};
  }
  const Value y = g.convert(x, compute_type(x.type));
  return {g.select(g.compare("LT", y, g.like(y, 0)), g.unary("ceil", y), g.unary("floor", y))};
})
TNX_LOWER("abs", {
  const Value& x = call.tensor(0);
  return {x.type == kPred || (!is_float(x.type) && !is_signed_integer(x.type)) ? x
                                                                               : g.unary("abs", x)};
})
namespace {

std::vector<Value> sign(Graph& g, const Call& call) {
  const Value& x = call.tensor(0);
  if (x.type == kPred) {
    return {x};
  }
  if (is_float(x.type)) {  // torch: the sign of a NaN is 0
    return {g.select(g.is_nan(x), g.like(x, 0), g.unary("sign", x))};
  }
  return {is_signed_integer(x.type) ? g.unary("sign", x)
                                    : g.convert(g.compare("NE", x, g.like(x, 0)), x.type)};
}

}  // namespace

TNX_LOWER("sign", { return sign(g, call); })
TNX_LOWER("sgn", { return sign(g, call); })
TNX_LOWER("reciprocal", {
  const Value x = g.convert(call.tensor(0), result_compute(call));
  return {g.div(g.like(x, 1), x)};
})
TNX_LOWER("exp2", {
  const Value x = g.convert(call.tensor(0), result_compute(call));
  return {g.binary("power", g.like(x, 2), x)};
})
TNX_LOWER("log2", {
  const Value x = g.convert(call.tensor(0), result_compute(call));
  return {g.div(g.log(x), g.like(x, std::numbers::ln2))};
})
TNX_LOWER("log10", {
  const Value x = g.convert(call.tensor(0), result_compute(call));
  return {g.div(g.log(x), g.like(x, std::numbers::ln10))};
})
TNX_LOWER("erfc", {
  const Value x = g.convert(call.tensor(0), result_compute(call));
  return {g.sub(g.like(x, 1), g.unary("erf", x))};
})
TNX_LOWER("frac", {
  const Value x = g.convert(call.tensor(0), result_compute(call));
  return {g.sub(
      x, g.select(g.compare("LT", x, g.like(x, 0)), g.unary("ceil", x), g.unary("floor", x)))};
})
TNX_LOWER("isnan", {
  const Value& x = call.tensor(0);
  return {is_float(x.type) ? g.is_nan(x) : g.full(kPred, x.dims, 0)};
})
TNX_LOWER("isinf", {
  const Value& x = call.tensor(0);
  if (!is_float(x.type)) {
    return {g.full(kPred, x.dims, 0)};
  }
  return {g.logical_not(g.binary("or", g.is_finite(x), g.is_nan(x)))};
})
TNX_LOWER("signbit", {
  const Value& x = call.tensor(0);
  if (!is_float(x.type)) {
    return {g.compare("LT", x, g.like(x, 0))};
  }
  const Value bits = g.bitcast(g.convert(x, kF32), kS32);
  return {g.compare("LT", bits, g.like(bits, 0))};
})

// ---- choice -------------------------------------------------------------------------------------

TNX_LOWER("where.self", {
  const Type type = call.out().type;
  return {g.select(call.operand(g, 0, kPred), call.operand(g, 1, type), call.operand(g, 2, type))};
})

namespace {

std::vector<Value> masked_fill(Graph& g, const Call& call) {
  const Value& x = call.tensor(0);
  return {g.select(call.tensor(1), call.operand(g, 2, x.type), x)};
}

std::vector<Value> clamp(Graph& g, const Call& call) {
  const Type type = call.out().type;
  Value x = g.convert(call.tensor(0), type);
  if (call.has(1)) {
    x = g.max(x, call.operand(g, 1, type));
  }
  if (call.has(2)) {
    x = g.min(x, call.operand(g, 2, type));
  }
  return {x};
}

}  // namespace

TNX_LOWER("masked_fill.Scalar", { return masked_fill(g, call); })
TNX_LOWER("masked_fill.Tensor", { return masked_fill(g, call); })
TNX_LOWER("clamp", { return clamp(g, call); })
TNX_LOWER("clamp.Tensor", { return clamp(g, call); })
TNX_LOWER("clamp_min", { return clamp(g, call); })
TNX_LOWER("clamp_min.Tensor", { return clamp(g, call); })
TNX_LOWER("clamp_max", {
  const Type type = call.out().type;
  return {g.min(g.convert(call.tensor(0), type), call.operand(g, 1, type))};
})
TNX_LOWER("clamp_max.Tensor", {
  const Type type = call.out().type;
  return {g.min(g.convert(call.tensor(0), type), call.operand(g, 1, type))};
})

// ---- products with a third operand --------------------------------------------------------------

TNX_LOWER("addcmul", {
  const Type type = result_compute(call);
  return {g.add(
      call.operand(g, 0, type),
      g.mul(g.mul(call.scalar(g, 3, type), call.operand(g, 1, type)), call.operand(g, 2, type)))};
})
TNX_LOWER("addcdiv", {
  const Type type = result_compute(call);
  return {g.add(
      call.operand(g, 0, type),
      g.mul(call.scalar(g, 3, type), g.div(call.operand(g, 1, type), call.operand(g, 2, type))))};
})

namespace {

// The form that torch uses for a weight of at least 0.5 keeps the end point exact.
std::vector<Value> lerp(Graph& g, const Call& call) {
  const Type type = result_compute(call);
  const Value a = call.operand(g, 0, type);
  const Value b = call.operand(g, 1, type);
  const Value w = call.operand(g, 2, type);
  // a + w (b - a), or b + (w - 1) (b - a): which of them is said by w alone, often one number.
  const Value low = g.compare("LT", g.unary("abs", w), g.like(w, 0.5));
  const Value factor = g.select(low, w, g.sub(w, g.like(w, 1)));
  return {g.add(g.select(low, a, b), g.mul(factor, g.sub(b, a)))};
}

}  // namespace

TNX_LOWER("lerp.Scalar", { return lerp(g, call); })
TNX_LOWER("lerp.Tensor", { return lerp(g, call); })

// ---- activations --------------------------------------------------------------------------------

TNX_LOWER("relu", {
  const Value& x = call.tensor(0);
  return {g.max(x, g.like(x, 0))};
})
TNX_LOWER("threshold_backward", {  // grad, x, threshold
  const Value& grad = call.tensor(0);
  const Value& x = call.tensor(1);
  return {g.select(g.compare("LE", x, call.scalar(g, 2, x.type)), g.like(grad, 0), grad)};
})
TNX_LOWER("threshold", {
  const Value& x = call.tensor(0);
  return {g.select(g.compare("LE", x, call.scalar(g, 1, x.type)), call.scalar(g, 2, x.type), x)};
})
TNX_LOWER("silu", {
  const Value x = g.convert(call.tensor(0), result_compute(call));
  return {g.mul(x, g.sigmoid(x))};
})
TNX_LOWER("silu_backward", {
  const Type type = result_compute(call);
  const Value grad = call.operand(g, 0, type);
  const Value x = call.operand(g, 1, type);
  const Value s = g.sigmoid(x);
  const Value one = g.like(x, 1);
  return {g.mul(grad, g.mul(s, g.add(one, g.mul(x, g.sub(one, s)))))};
})
TNX_LOWER("sigmoid_backward", {
  const Type type = result_compute(call);
  const Value grad = call.operand(g, 0, type);
  const Value y = call.operand(g, 1, type);
  return {g.mul(g.mul(grad, g.sub(g.like(y, 1), y)), y)};
})
TNX_LOWER("tanh_backward", {
  const Type type = result_compute(call);
  const Value grad = call.operand(g, 0, type);
  const Value y = call.operand(g, 1, type);
  return {g.mul(grad, g.sub(g.like(y, 1), g.mul(y, y)))};
})

namespace {

constexpr double kGeluCubic = 0.044715;

Value gelu_inner(Graph& g, const Value& x) {  // sqrt(2 / pi) * (x + 0.044715 x^3)
  const Value cube = g.mul(g.mul(x, x), x);
  return g.mul(g.like(x, sqrt2 * inv_sqrtpi), g.add(x, g.mul(g.like(x, kGeluCubic), cube)));
}

}  // namespace

TNX_LOWER("gelu", {
  const Value x = g.convert(call.tensor(0), result_compute(call));
  const Value half = g.like(x, 0.5);
  const Value one = g.like(x, 1);
  if (call.text(1) == "tanh") {
    return {g.mul(g.mul(half, x), g.add(one, g.tanh(gelu_inner(g, x))))};
  }
  return {g.mul(g.mul(x, half), g.add(one, g.unary("erf", g.mul(x, g.like(x, 1 / sqrt2)))))};
})
TNX_LOWER("gelu_backward", {
  const Type type = result_compute(call);
  const Value grad = call.operand(g, 0, type);
  const Value x = call.operand(g, 1, type);
  const Value half = g.like(x, 0.5);
  const Value one = g.like(x, 1);
  if (call.text(2) == "tanh") {
    const Value t = g.tanh(gelu_inner(g, x));
    const Value left = g.mul(half, g.add(one, t));
    const Value slope = g.mul(g.like(x, sqrt2 * inv_sqrtpi),
                              g.add(one, g.mul(g.like(x, 3 * kGeluCubic), g.mul(x, x))));
    const Value right = g.mul(g.mul(g.mul(half, x), g.sub(one, g.mul(t, t))), slope);
    return {g.mul(grad, g.add(left, right))};
  }
  const Value cdf = g.mul(half, g.add(one, g.unary("erf", g.mul(x, g.like(x, 1 / sqrt2)))));
  const Value pdf =
      g.mul(g.exp(g.mul(g.mul(x, x), g.like(x, -0.5))), g.like(x, inv_sqrtpi / sqrt2));
  return {g.mul(grad, g.add(cdf, g.mul(x, pdf)))};
})
TNX_LOWER("softplus", {  // x, beta, threshold
  const Type type = result_compute(call);
  const Value x = call.operand(g, 0, type);
  const Value beta = call.scalar(g, 1, type);
  const Value scaled = g.mul(x, beta);
  return {g.select(g.compare("GT", scaled, call.scalar(g, 2, type)), x,
                   g.div(g.unary("log-plus-one", g.exp(scaled)), beta))};
})
TNX_LOWER("softplus_backward", {  // grad, x, beta, threshold
  const Type type = result_compute(call);
  const Value grad = call.operand(g, 0, type);
  const Value scaled = g.mul(call.operand(g, 1, type), call.scalar(g, 2, type));
  const Value z = g.exp(scaled);
  return {g.select(g.compare("GT", scaled, call.scalar(g, 3, type)), grad,
                   g.div(g.mul(grad, z), g.add(z, g.like(z, 1))))};
})
TNX_LOWER("log_sigmoid_forward", {  // also gives exp(-|x|) as the buffer of the CPU kernel
  const Value x = g.convert(call.tensor(0), result_compute(call));
  const Value z = g.exp(g.neg(g.unary("abs", x)));
  const Value y = g.sub(g.min(x, g.like(x, 0)), g.unary("log-plus-one", z));
  // On devices the buffer is empty.
  return {y, call.out(1).dims == x.dims ? z : g.zeros(x.type, call.out(1).dims)};
})
TNX_LOWER("log_sigmoid_backward", {  // grad, x, buffer
  const Type type = result_compute(call);
  const Value grad = call.operand(g, 0, type);
  const Value x = call.operand(g, 1, type);
  return {g.mul(grad, g.sigmoid(g.neg(x)))};
})
TNX_LOWER("leaky_relu", {
  const Type type = result_compute(call);
  const Value x = call.operand(g, 0, type);
  return {g.select(g.compare("GT", x, g.like(x, 0)), x, g.mul(x, call.scalar(g, 1, type)))};
})
TNX_LOWER("leaky_relu_backward", {  // grad, x, slope, self_is_result
  const Type type = result_compute(call);
  const Value grad = call.operand(g, 0, type);
  const Value x = call.operand(g, 1, type);
  return {g.select(g.compare("GT", x, g.like(x, 0)), grad, g.mul(grad, call.scalar(g, 2, type)))};
})
TNX_LOWER("elu", {  // x, alpha, scale, input_scale
  const Type type = result_compute(call);
  const Value x = call.operand(g, 0, type);
  const Value scale = call.scalar(g, 2, type);
  const Value low = g.mul(g.mul(call.scalar(g, 1, type), scale),
                          g.unary("exponential-minus-one", g.mul(x, call.scalar(g, 3, type))));
  return {g.select(g.compare("LE", x, g.like(x, 0)), low, g.mul(x, scale))};
})
TNX_LOWER("hardtanh", {
  const Value& x = call.tensor(0);
  return {g.min(g.max(x, call.scalar(g, 1, x.type)), call.scalar(g, 2, x.type))};
})
TNX_LOWER("hardtanh_backward", {  // grad, x, low, high
  const Value& grad = call.tensor(0);
  const Value& x = call.tensor(1);
  const Value outside = g.binary("or", g.compare("LE", x, call.scalar(g, 2, x.type)),
                                 g.compare("GE", x, call.scalar(g, 3, x.type)));
  return {g.select(outside, g.like(grad, 0), grad)};
})
TNX_LOWER("hardsigmoid", {
  const Value x = g.convert(call.tensor(0), result_compute(call));
  const Value six = g.like(x, 6);
  return {g.div(g.min(g.max(g.add(x, g.like(x, 3)), g.like(x, 0)), six), six)};
})
TNX_LOWER("hardswish", {
  const Value x = g.convert(call.tensor(0), result_compute(call));
  const Value six = g.like(x, 6);
  return {g.div(g.mul(x, g.min(g.max(g.add(x, g.like(x, 3)), g.like(x, 0)), six)), six)};
})

}  // namespace tnx
