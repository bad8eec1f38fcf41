// SPDX-License-Identifier: Apache-2.0
// Gamma and Bessel functions, and what is made of a float's bits. Lanczos' sum is that of G.
// Godfrey (g = 7, 9 terms); Hurwitz' zeta by Euler and Maclaurin, and the Chebyshev series of the
// modified Bessel functions, as in S. Moshier's Cephes library (single precision).
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>
#include <utility>

#include "python/torch_neuronx/csrc/lower/lowering.h"

namespace tnx {
namespace {

constexpr double kPi = std::numbers::pi;

Value input(Graph& g, const Call& call) { return g.convert(call.tensor(0), result_compute(call)); }

Value scaled(Graph& g, const Value& x, double factor) { return g.mul(x, g.like(x, factor)); }
Value plus(Graph& g, const Value& x, double number) { return g.add(x, g.like(x, number)); }
Value inverse(Graph& g, const Value& x) { return g.div(g.like(x, 1), x); }
Value above(Graph& g, const Value& x, double limit) { return g.compare("GT", x, g.like(x, limit)); }
Value equals(Graph& g, const Value& x, double number) {
  return g.compare("EQ", x, g.like(x, number));
}
Value is_whole(Graph& g, const Value& x) { return g.compare("EQ", x, g.unary("floor", x)); }

constexpr double kLanczos = 7;
constexpr std::initializer_list<double> kLanczosTerms = {
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,   -176.61502916214059906584551354,
    12.507343278686904814458936853,     -0.13857109526572011689554707,
    9.984369578019570859563e-6,         1.50563273514931155834e-7};

struct Lanczos {
  Value z;  // x - 1, or -x where the reflection is taken
  Value sum;
  Value slope;      // of the sum, without its sign
  Value logarithm;  // of z + g + 1/2
};

Lanczos lanczos(Graph& g, const Value& x) {
  Lanczos l;
  l.z = g.select(g.compare("LT", x, g.like(x, 0.5)), g.neg(x), plus(g, x, -1));
  l.sum = g.like(x, 0.99999999999980993227684700473478);
  l.slope = g.like(x, 0);
  double i = 1;
  for (const double term : kLanczosTerms) {
    const Value d = plus(g, l.z, i);
    const Value part = g.div(g.like(d, term), d);
    l.sum = g.add(l.sum, part);
    l.slope = g.add(l.slope, g.div(part, d));
    i += 1;
  }
  l.logarithm = plus(g, g.unary("log-plus-one", scaled(g, l.z, 1 / (kLanczos + 0.5))),
                     std::log(kLanczos + 0.5));
  return l;
}

Value log_gamma(Graph& g, const Value& x) {
  const Lanczos l = lanczos(g, x);
  const Value t = plus(g, l.z, kLanczos + 0.5);
  const Value y = g.add(plus(g, g.mul(g.sub(plus(g, l.z, 0.5), g.div(t, l.logarithm)), l.logarithm),
                             std::log(std::sqrt(2 * kPi))),
                        g.log(l.sum));
  const Value size = g.unary("abs", x);
  const Value part = g.sub(size, g.unary("floor", size));
  const Value near = g.select(above(g, part, 0.5), g.sub(g.like(part, 1), part), part);
  const Value sine = g.log(g.unary("sine", scaled(g, near, kPi)));
  const Value reflected =
      g.select(g.is_finite(sine), g.sub(plus(g, g.neg(sine), std::log(kPi)), y), g.neg(sine));
  const Value result = g.select(g.compare("LT", x, g.like(x, 0.5)), reflected, y);
  return g.select(equals(g, size, HUGE_VAL), g.like(x, HUGE_VAL), result);
}

Value digamma(Graph& g, const Value& x) {
  const Lanczos l = lanczos(g, x);
  const Value t = plus(g, l.z, kLanczos + 0.5);
  const Value y = g.sub(l.logarithm, g.add(g.div(l.slope, l.sum), g.div(g.like(t, kLanczos), t)));
  // pi / tan(pi x), of the nearest whole number's distance.
  const Value away = g.sub(x, g.unary("round-nearest-even", x));
  const Value angle = scaled(g, away, kPi);
  const Value reflected =
      g.sub(y, g.div(scaled(g, g.unary("cosine", angle), kPi), g.unary("sine", angle)));
  Value result = g.select(g.compare("LT", x, g.like(x, 0.5)), reflected, y);
  const Value pole = g.binary("and", g.compare("LT", x, g.like(x, 0)), is_whole(g, x));
  result = g.select(pole, g.like(x, NAN), result);
  result = g.select(equals(g, x, HUGE_VAL), x, result);
  return g.select(equals(g, x, 0), g.div(g.like(x, -1), x), result);
}

Value trigamma(Graph& g, const Value& given) {
  const Value low = g.compare("LT", given, g.like(given, 0.5));
  Value x = g.select(low, g.sub(g.like(given, 1), given), given);
  Value sum = g.like(x, 0);
  for (int i = 0; i < 6; ++i) {
    sum = g.add(sum, inverse(g, g.mul(x, x)));
    x = plus(g, x, 1);
  }
  const Value i2 = inverse(g, g.mul(x, x));
  Value tail = plus(g, scaled(g, i2, -1.0 / 42), 1.0 / 30);
  tail = plus(g, g.neg(g.mul(i2, tail)), 1.0 / 6);
  tail = g.add(g.mul(i2, tail), plus(g, inverse(g, scaled(g, x, 2)), 1));
  sum = g.add(sum, g.div(tail, x));
  const Value away = g.sub(given, g.unary("round-nearest-even", given));
  const Value sine = g.unary("sine", scaled(g, away, kPi));
  return g.select(low, g.sub(g.div(g.like(x, kPi * kPi), g.mul(sine, sine)), sum), sum);
}

// Of x > 1 and q, elementwise.
Value zeta(Graph& g, const Value& given_x, const Value& given_q) {
  const Value x = g.add(given_x, g.sub(given_q, given_q));  // of one shape; NaN stays
  const Value q = g.expand(given_q, x.dims);
  const Value minus = g.neg(x);
  Value a = q;
  Value b = g.binary("power", q, minus);
  Value s = b;
  constexpr int kFirst = 9;
  constexpr int kMost = 24;  // terms: q from -14 on
  for (int i = 0; i < kMost; ++i) {
    const Value wanted =
        i < kFirst ? g.full(kPred, x.dims, 1) : g.compare("LE", a, g.like(a, kFirst));
    a = g.select(wanted, plus(g, a, 1), a);
    b = g.select(wanted, g.binary("power", a, minus), b);
    s = g.select(wanted, g.add(s, b), s);
  }
  const Value w = a;
  s = g.add(s, g.sub(g.div(g.mul(b, w), plus(g, x, -1)), scaled(g, b, 0.5)));
  Value factor = g.like(x, 1);
  double k = 0;
  for (const double term :
       {12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9}) {
    factor = g.mul(factor, plus(g, x, k));
    b = g.div(b, w);
    s = g.add(s, scaled(g, g.mul(factor, b), 1 / term));
    k += 1;
    factor = g.mul(factor, plus(g, x, k));
    b = g.div(b, w);
    k += 1;
  }
  const Value low = g.compare("LE", q, g.like(q, 0));
  const Value whole = is_whole(g, q);
  s = g.select(g.binary("and", low, g.logical_not(is_whole(g, x))), g.like(s, NAN), s);
  s = g.select(g.binary("and", low, whole), g.like(s, HUGE_VAL), s);
  s = g.select(g.compare("LT", x, g.like(x, 1)), g.like(s, NAN), s);
  return g.select(equals(g, x, 1), g.like(s, HUGE_VAL), s);
}

std::vector<Value> polygamma(Graph& g, const Call& call, int64_t n, size_t at) {
  const Value x = g.convert(call.tensor(at), result_compute(call));
  if (n < 0) {
    throw Error("polygamma(n, x) does not support negative n.");
  }
  if (n == 0) {
    return {digamma(g, x)};
  }
  if (n == 1) {
    return {trigamma(g, x)};
  }
  const double factorial = std::tgamma(static_cast<double>(n + 1)) * (n % 2 != 0 ? 1 : -1);
  return {scaled(g, zeta(g, g.like(x, static_cast<double>(n + 1)), x), factorial)};
}

// ---- modified Bessel functions ------------------------------------------------------------------

Value chebyshev(Graph& g, const Value& x, std::initializer_list<double> terms) {
  Value b0 = g.like(x, *terms.begin());
  Value b1 = g.like(x, 0);
  Value b2 = b1;
  for (const double* term = terms.begin() + 1; term != terms.end(); ++term) {
    b2 = b1;
    b1 = b0;
    b0 = plus(g, g.sub(g.mul(x, b1), b2), *term);
  }
  return scaled(g, g.sub(b0, b2), 0.5);
}

// exp(-|x|) I0(x)
Value bessel_i0e(Graph& g, const Value& given) {
  const Value x = g.unary("abs", given);
  const Value low =
      chebyshev(g, plus(g, scaled(g, x, 0.5), -2),
                {-1.30002500998624804212e-8, 6.04699502254191894932e-8, -2.67079385394061173391e-7,
                 1.11738753912010371815e-6, -4.41673835845875056359e-6, 1.64484480707288970893e-5,
                 -5.75419501008210370398e-5, 1.88502885095841655729e-4, -5.76375574538582365885e-4,
                 1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2,
                 -2.37374148058994688156e-2, 4.93052842396707084878e-2, -9.49010970480476444210e-2,
                 1.71620901522208775349e-1, -3.04682672343198398683e-1, 6.76795274409476084995e-1});
  const Value high = g.div(
      chebyshev(g, plus(g, g.div(g.like(x, 32), x), -2),
                {3.39623202570838634515e-9, 2.26666899049817806459e-8, 2.04891858946906374183e-7,
                 2.89137052083475648297e-6, 6.88975834691682398426e-5, 3.36911647825569408990e-3,
                 8.04490411014108831608e-1}),
      g.sqrt(x));
  return g.select(above(g, x, 8), high, low);
}

// exp(-|x|) I1(x)
Value bessel_i1e(Graph& g, const Value& given) {
  const Value x = g.unary("abs", given);
  const Value low = g.mul(
      x,
      chebyshev(g, plus(g, scaled(g, x, 0.5), -2),
                {9.38153738649577178388e-9, -4.44505912879632808065e-8, 2.00329475355213526229e-7,
                 -8.56872026469545474066e-7, 3.47025130813767847674e-6, -1.32731636560394358279e-5,
                 4.78156510755005422638e-5, -1.61760815825896745588e-4, 5.12285956168575772895e-4,
                 -1.51357245063125314899e-3, 4.15642294431288815669e-3, -1.05640848946261981558e-2,
                 2.47264490306265168283e-2, -5.29459812080949914269e-2, 1.02643658689847095384e-1,
                 -1.76416518357834055153e-1, 2.52587186443633654823e-1}));
  const Value high = g.div(
      chebyshev(g, plus(g, g.div(g.like(x, 32), x), -2),
                {-3.83538038596423702205e-9, -2.63146884688951950684e-8, -2.51223623787020892529e-7,
                 -3.88256480887769039346e-6, -1.10588938762623716291e-4, -9.76109749136146840777e-3,
                 7.78576235018280120474e-1}),
      g.sqrt(x));
  const Value y = g.select(above(g, x, 8), high, low);
  return g.select(g.compare("LT", given, g.like(given, 0)), g.neg(y), y);
}

Value grown(Graph& g, const Value& y, const Value& x) { return g.mul(y, g.exp(g.unary("abs", x))); }

}  // namespace

TNX_LOWER("lgamma", { return {log_gamma(g, input(g, call))}; })
TNX_LOWER("digamma", { return {digamma(g, input(g, call))}; })
TNX_LOWER("polygamma", { return polygamma(g, call, call.integer(0), 1); })
TNX_LOWER("special_zeta", {
  const Type type = result_compute(call);
  return {zeta(g, call.operand(g, 0, type), call.operand(g, 1, type))};
})
TNX_LOWER("i0", {
  const Value x = input(g, call);
  return {grown(g, bessel_i0e(g, x), x)};
})
TNX_LOWER("special_i0e", { return {bessel_i0e(g, input(g, call))}; })
TNX_LOWER("special_i1", {
  const Value x = input(g, call);
  return {grown(g, bessel_i1e(g, x), x)};
})
TNX_LOWER("special_i1e", { return {bessel_i1e(g, input(g, call))}; })
TNX_LOWER("special_modified_bessel_i0", {
  const Value x = input(g, call);
  return {grown(g, bessel_i0e(g, x), x)};
})
TNX_LOWER("special_modified_bessel_i1", {
  const Value x = input(g, call);
  return {grown(g, bessel_i1e(g, x), x)};
})

// ---- bits ---------------------------------------------------------------------------------------

TNX_LOWER("nextafter", {
  const Type type = call.out().type;
  if (type != kF32) {
    throw Unsupported("a type of other bits");
  }
  const Value a = call.operand(g, 0, type);
  const Value b = g.expand(call.operand(g, 1, type), call.out().dims);
  const Value from = g.expand(a, b.dims);
  const Value bits = g.bitcast(from, kS32);
  const Value up = g.compare("LT", from, b);
  const Value positive = g.compare("GE", bits, g.like(bits, 0));
  const Value away = g.compare("EQ", up, positive);  // from zero: the bits count up
  const Value one = g.like(bits, 1);
  const Value next = g.bitcast(g.select(away, g.add(bits, one), g.sub(bits, one)), kF32);
  const Value least = g.bitcast(one, kF32);
  Value y = g.select(equals(g, from, 0), g.select(up, least, g.neg(least)), next);
  y = g.select(g.compare("EQ", from, b), b, y);
  return {g.select(g.binary("or", g.is_nan(from), g.is_nan(b)), g.add(from, b), y)};
})
TNX_LOWER("isposinf", {
  const Value& x = call.tensor(0);
  return {is_float(x.type) ? equals(g, x, HUGE_VAL) : g.full(kPred, x.dims, 0)};
})
TNX_LOWER("isneginf", {
  const Value& x = call.tensor(0);
  return {is_float(x.type) ? equals(g, x, -HUGE_VAL) : g.full(kPred, x.dims, 0)};
})
TNX_LOWER("angle", {
  const Value x = input(g, call);
  const Value y = g.select(g.compare("LT", x, g.like(x, 0)), g.like(x, kPi), g.like(x, 0));
  return {g.select(g.is_nan(x), x, y)};
})

}  // namespace tnx
