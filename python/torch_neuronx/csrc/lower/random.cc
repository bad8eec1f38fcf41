// SPDX-License-Identifier: Apache-2.0
// Random numbers: Philox bits, made into distributions. A generator's state is an input of the
// program; the same seed gives the same numbers.
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <optional>

#include "python/torch_neuronx/csrc/lower/lowering.h"
#include "python/torch_neuronx/csrc/lower/scan.h"

namespace tnx {
namespace {

// Bits of u32 as k / 2^digits: 0 <= x < 1, exact in a type of that many digits.
Value unit(Graph& g, const Value& bits, int digits) {
  const Value high = g.binary("shift-right-logical", bits, g.integer(kU32, 32 - digits));
  return g.mul(g.convert(high, kF32), g.constant(kF32, std::ldexp(1.0, -digits)));
}

// 0 < x <= 1, for logarithms: from 2^-33 on.
Value positive_unit(Graph& g, const Value& bits) {
  return g.add(g.mul(g.convert(bits, kF32), g.constant(kF32, std::ldexp(1.0, -32))),
               g.constant(kF32, std::ldexp(1.0, -33)));
}

constexpr int kDigits = 24;  // of f32

int digits_of(Type type) { return type == kBF16 ? 8 : type == kF16 ? 11 : kDigits; }

Value uniform(Graph& g, const Call& call, const Dims& dims) {
  return unit(g, call.random_bits(g, kU32, dims), kDigits);
}

// Box and Muller's pairs: radius and angle of a point of the plane.
Value normal(Graph& g, const Call& call, const Dims& dims) {
  const int64_t n = count_of(dims);
  const int64_t pairs = (n + 1) / 2;
  const Value bits = call.random_bits(g, kU32, {2, pairs});
  const auto half = [&](int64_t i) { return g.reshape(g.narrow(bits, 0, i, 1), {pairs}); };
  const Value radius = g.sqrt(g.mul(g.constant(kF32, -2), g.log(positive_unit(g, half(0)))));
  const Value angle = g.mul(unit(g, half(1), kDigits), g.constant(kF32, 2 * std::numbers::pi));
  const Value both =
      g.concat({g.mul(radius, g.unary("cosine", angle)), g.mul(radius, g.unary("sine", angle))}, 0);
  return g.reshape(g.narrow(both, 0, 0, n), dims);
}

Value number(Graph& g, const Call& call, size_t i) { return call.operand(g, i, kF32); }

// mean + std * z; each a number or a tensor.
std::vector<Value> shifted_normal(Graph& g, const Call& call, size_t mean, size_t deviation) {
  const Value z = normal(g, call, call.out().dims);
  return {g.add(g.mul(z, number(g, call, deviation)), number(g, call, mean))};
}

std::vector<Value> uniform_between(Graph& g, const Call& call) {  // self, from, to
  const Type type = call.out().type;
  const Value u = unit(g, call.random_bits(g, kU32, call.out().dims), digits_of(type));
  const Value from = number(g, call, 1);
  const Value to = number(g, call, 2);
  const Value x = g.convert(g.add(g.mul(u, g.sub(to, from)), from), type);
  // Rounding may reach the upper end, which is not in the range.
  return {g.select(g.compare("GE", x, g.convert(to, type)), g.convert(from, type), x)};
}

// A logarithm of a uniform number that is never 0.
Value log_uniform(Graph& g, const Call& call) {
  const Value u = positive_unit(g, call.random_bits(g, kU32, call.out().dims));
  return g.min(g.log(u), g.constant(kF32, -std::ldexp(1.0, -24)));
}

// Numbers that torch refuses.
void verify(bool right, const std::string& text) {
  if (!right) {
    throw Error(text);
  }
}

std::string text_of(double x) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", x);
  return text.data();
}

using Numbers = std::vector<Number>;

void verify_uniform(Type, const Numbers& n) {
  verify(n[0].value <= n[1].value,
         "uniform_ expects to return a [from, to) range, but found from=" + text_of(n[0].value) +
             " > to=" + text_of(n[1].value));
}
void verify_normal(Type, const Numbers& n) {
  verify(n.back().value >= 0,
         "normal expects std >= 0.0, but found std " + text_of(n.back().value));
}
void verify_log_normal(Type, const Numbers& n) {
  verify(n[1].value > 0, "log_normal_ expects std > 0.0, but found std=" + text_of(n[1].value));
}
void verify_exponential(Type, const Numbers& n) {
  verify(n[0].value > 0,
         "exponential_ expects lambda > 0.0, but found lambda=" + text_of(n[0].value));
}
void verify_geometric(Type, const Numbers& n) {
  verify(n[0].value > 0 && n[0].value < 1,
         "geometric_ expects p to be in (0, 1), but got p=" + text_of(n[0].value));
}
void verify_cauchy(Type, const Numbers& n) {
  verify(n[1].value > 0, "cauchy_ expects sigma > 0.0, but found sigma=" + text_of(n[1].value));
}
void verify_probability(Type, const Numbers& n) {
  verify(n[0].value >= 0 && n[0].value <= 1,
         "bernoulli_ expects p to be in [0, 1], but got p=" + text_of(n[0].value));
}

}  // namespace

#define TNX_RANDOM(name, ...) TNX_LOWER_ROW(name, (Row{.random = true}), __VA_ARGS__)
#define TNX_RANDOM_OF(name, verified, ...) \
  TNX_LOWER_ROW(name, (Row{.verify = verified, .random = true}), __VA_ARGS__)
TNX_RANDOM_OF("uniform_", verify_uniform, { return uniform_between(g, call); })
TNX_RANDOM_OF("normal_", verify_normal, { return shifted_normal(g, call, 1, 2); })
TNX_RANDOM_OF("normal.Tensor_float", verify_normal, { return shifted_normal(g, call, 0, 1); })
TNX_RANDOM("normal.float_Tensor", { return shifted_normal(g, call, 0, 1); })
TNX_RANDOM("normal.Tensor_Tensor", { return shifted_normal(g, call, 0, 1); })
TNX_RANDOM_OF("log_normal_", verify_log_normal,
              { return {g.exp(shifted_normal(g, call, 1, 2)[0])}; })
TNX_RANDOM_OF("exponential_", verify_exponential,
              { return {g.div(g.neg(log_uniform(g, call)), number(g, call, 1))}; })
TNX_RANDOM_OF("geometric_", verify_geometric, {
  const Value one = g.constant(kF32, 1);
  const Value p = number(g, call, 1);
  const Value tries = g.div(log_uniform(g, call), g.unary("log-plus-one", g.neg(p)));
  return {g.max(g.unary("ceil", tries), one)};
})
TNX_RANDOM_OF("cauchy_", verify_cauchy, {
  const Value u = uniform(g, call, call.out().dims);
  const Value angle = g.mul(g.sub(u, g.constant(kF32, 0.5)), g.constant(kF32, std::numbers::pi));
  return {g.add(number(g, call, 1), g.mul(number(g, call, 2), g.unary("tan", angle)))};
})

// ---- whole numbers
// --------------------------------------------------------------------------------

namespace {

// Whole numbers that a type holds without gaps: 2^digits for floats.
int64_t largest_of(Type type) {
  switch (type) {
    case NRTCC_PRED:
      return 1;
    case NRTCC_BF16:
      return int64_t{1} << 8;
    case NRTCC_F16:
      return int64_t{1} << 11;
    case NRTCC_F32:
      return int64_t{1} << 24;
    case NRTCC_F64:
      return int64_t{1} << 53;
    case NRTCC_U8:
      return 255;
    default:
      return std::numeric_limits<int64_t>::max() >> (64 - 8 * bytes_of(type));
  }
}

// from <= x < from + range; a range of 0 is all 2^64.
std::vector<Value> whole(Graph& g, const Call& call, int64_t from, uint64_t range) {
  const Meta& out = call.out();
  const bool wide = range == 0 || range > (uint64_t{1} << 32);
  const Type type = wide ? kU64 : kU32;
  Value x = call.random_bits(g, type, out.dims);
  if (range != 0 && range != (uint64_t{1} << 32)) {
    x = g.binary("remainder", x, g.integer(type, static_cast<int64_t>(range)));
  }
  const Value offset = wide ? g.bitcast(x, kS64) : g.convert(x, kS64);
  return {g.add(offset, g.integer(kS64, from))};
}

// from <= x < to; bounds of at most 31 bits are inputs of the program. No `from` is 0.
std::vector<Value> whole_between(Graph& g, const Call& call, std::optional<size_t> from,
                                 size_t to) {
  const bool low_known = from && call.scalar_info(*from).known;
  const bool high_known = call.scalar_info(to).known;
  if (high_known && (low_known || !from)) {
    const int64_t low = from ? call.integer(*from) : 0;
    return whole(g, call, low,
                 static_cast<uint64_t>(call.integer(to)) - static_cast<uint64_t>(low));
  }
  const bool wide = high_known || low_known;
  const Value low = from ? call.scalar(g, *from, kS64) : g.integer(kS64, 0);
  const Value range = g.sub(call.scalar(g, to, kS64), low);
  const Value bits = call.random_bits(g, wide ? kU64 : kU32, call.out().dims);
  const Value x =
      g.binary("remainder", bits, wide ? g.bitcast(range, kU64) : g.convert(range, kU32));
  return {g.add(wide ? g.bitcast(x, kS64) : g.convert(x, kS64), low)};
}

void verify_bounds(Type type, int64_t from, int64_t to) {
  verify(from < to, "random_ expects 'from' to be less than 'to', but got from=" +
                        std::to_string(from) + " >= to=" + std::to_string(to));
  if (is_integer(type) || type == kPred) {
    const int64_t least = is_signed_integer(type) ? -largest_of(type) - 1 : 0;
    verify(from >= least, "from is out of bounds for " + std::string(name_of(type)));
    verify(to - 1 <= largest_of(type), "to - 1 is out of bounds for " + std::string(name_of(type)));
  }
}

// A bound that is not among the numbers is in the key, where torch's meta kernel checks it, and too
// large for the order of the two to be in doubt.
void verify_to(Type type, const Numbers& n) {
  if (n.size() == 1) {
    verify_bounds(type, 0, n[0].integer);
  }
}
void verify_from_to(Type type, const Numbers& n) {
  if (n.size() == 2) {
    verify_bounds(type, n[0].integer, n[1].integer);
  }
}

}  // namespace

TNX_RANDOM("random_", {
  const int64_t largest = largest_of(call.out().type);
  return whole(g, call, 0, static_cast<uint64_t>(largest) + 1);
})
TNX_LOWER_ROW("random_.to", (Row{.changing = {1}, .verify = verify_to, .random = true}),
              { return whole_between(g, call, std::nullopt, 1); })
TNX_LOWER_ROW("random_.from", (Row{.changing = {1, 2}, .verify = verify_from_to, .random = true}), {
  if (call.has(2)) {
    return whole_between(g, call, 1, 2);
  }
  // Up to the largest number of the type.
  const Value from = call.scalar(g, 1, kS64);
  const Value range =
      g.add(g.sub(g.integer(kS64, largest_of(call.out().type)), from), g.integer(kS64, 1));
  const Value bits = call.random_bits(g, kU64, call.out().dims);
  const Value limit = g.bitcast(range, kU64);
  const Value all = g.compare("EQ", limit, g.integer(kU64, 0));
  const Value x =
      g.select(all, bits, g.binary("remainder", bits, g.select(all, g.integer(kU64, 1), limit)));
  return {g.add(g.bitcast(x, kS64), from)};
})

// ---- choices
// --------------------------------------------------------------------------------------

namespace {

std::vector<Value> bernoulli(Graph& g, const Call& call, size_t p) {
  const Dims& dims = call.out().dims;
  return {g.compare("LT", uniform(g, call, dims), g.expand(number(g, call, p), dims))};
}

// x, p, train: the result and what was kept.
std::vector<Value> dropout(Graph& g, const Call& call) {
  const Value x = g.convert(call.tensor(0), compute_type(call.tensor(0).type));
  if (call.has(2) && !call.flag(2)) {
    return {x, g.full(kPred, x.dims, 1)};
  }
  const Value one = g.constant(kF32, 1);
  const Value keep = g.sub(one, number(g, call, 1));
  const Value kept = g.compare("LT", uniform(g, call, x.dims), keep);
  const Value scale =
      g.select(g.compare("GT", keep, g.constant(kF32, 0)), g.div(one, keep), g.constant(kF32, 0));
  return {g.mul(g.mul(x, g.convert(kept, x.type)), g.convert(scale, x.type)), kept};
}

Type type_of_code(int64_t code) {  // torch's numbers of element types
  switch (code) {
    case 0:
      return kU8;
    case 1:
      return kS8;
    case 2:
      return kS16;
    case 3:
      return kS32;
    case 4:
      return kS64;
    case 5:
      return kF16;
    case 6:
      return kF32;
    case 7:
      return kF64;
    case 15:
      return kBF16;
    default:
      throw Unsupported("the type of the permutation");
  }
}

// Positions in the order of random keys of 64 bits.
std::vector<Value> permutation(Graph& g, const Call& call, size_t type) {
  const int64_t n = call.integer(0);
  if (n < 0) {
    throw Error("n must be non-negative, got " + std::to_string(n));
  }
  const Type to = type_of_code(call.integer_or(type, 4));
  if (n == 0) {
    return {g.zeros(to, {0})};
  }
  const Value keys = g.bitcast(call.random_bits(g, kU64, {n}), kS64);
  return {g.convert(g.sort({keys, g.iota(kS64, {n}, 0)}, 0, false)[1], to)};
}

// Places of the cumulated probabilities that uniform numbers fall into.
Value drawn_with_replacement(Graph& g, const Call& call, const Value& p, int64_t samples) {
  const int64_t rows = p.dims[0];
  const int64_t n = p.dims[1];
  if (rows * n > (int64_t{1} << 26) / samples) {
    throw Unsupported("more than 2^26 comparisons");
  }
  const Value sums = scan(g, "add", p, 1, g.constant(kF32, 0));
  const Value total = g.narrow(sums, 1, n - 1, 1);
  const Value u = g.mul(uniform(g, call, {rows, samples}), total);
  const Value below = g.mul(total, g.constant(kF32, 1 - std::ldexp(1.0, -24)));
  const Value target = g.reshape(g.min(u, below), {rows, samples, 1});
  const Value passed = g.compare("LE", g.reshape(sums, {rows, 1, n}), target);
  return g.sum(g.convert(passed, kS64), {2});
}

// Finite, not negative, and some of each row positive.
void check_probabilities(Graph& g, const Call& call, const Value& p) {
  const Value least = g.reduce("minimum", p, {0, 1});
  const Value most = g.reduce("maximum", p, {0, 1});
  const Value zero = g.constant(kF32, 0);
  // Comparisons with a NaN are false.
  const Value right = g.binary("and", g.compare("GE", least, zero),
                               g.compare("LT", most, g.constant(kF32, HUGE_VAL)));
  call.check(g, g.logical_not(right),
             "probability tensor contains either `inf`, `nan` or element < 0");
  const Value emptiest = g.reduce("minimum", g.reduce("maximum", p, {1}), {0});
  call.check(g, g.compare("LE", emptiest, zero),
             "invalid multinomial distribution (sum of probabilities <= 0)");
}

// probabilities, number, replacement
std::vector<Value> multinomial(Graph& g, const Call& call) {
  const Value& given = call.tensor(0);
  const int64_t samples = call.integer(1);
  if (given.rank() < 1 || given.rank() > 2) {
    throw Error("prob_dist must be 1 or 2 dim");
  }
  if (!is_float(given.type)) {
    throw Error("multinomial only supports floating-point dtypes for input");
  }
  if (samples <= 0) {
    throw Error("cannot sample n_sample <= 0 samples");
  }
  const int64_t n = given.dims.back();
  const bool replace = call.flag(2);
  if (!replace && samples > n) {
    throw Error("cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  }
  const int64_t rows = given.rank() == 1 ? 1 : given.dims[0];
  const Dims dims = given.rank() == 1 ? Dims{samples} : Dims{rows, samples};
  if (rows == 0 || n == 0) {
    return {g.zeros(kS64, dims)};
  }
  const Value p = g.reshape(g.convert(given, kF32), {rows, n});
  check_probabilities(g, call, p);
  if (replace && samples > 1) {
    return {g.reshape(drawn_with_replacement(g, call, p, samples), dims)};
  }
  // The least of exponential waiting times with rates p comes first with probability p.
  const Value u = positive_unit(g, call.random_bits(g, kU32, {rows, n}));
  const Value wait = g.min(g.log(u), g.constant(kF32, -std::ldexp(1.0, -24)));
  const Value rank = g.div(p, g.neg(wait));
  if (samples == 1) {
    return {g.reshape(g.extreme(true, rank, 1).second, dims)};
  }
  return {g.reshape(g.convert(g.topk(rank, samples, true).second, kS64), dims)};
}

}  // namespace

TNX_RANDOM_OF("bernoulli_.float", verify_probability, { return bernoulli(g, call, 1); })
TNX_RANDOM("bernoulli_.Tensor", { return bernoulli(g, call, 1); })
TNX_RANDOM("bernoulli", { return bernoulli(g, call, 0); })
TNX_RANDOM_OF("bernoulli.p", verify_probability, { return bernoulli(g, call, 1); })
TNX_RANDOM("bernoulli.Tensor", { return bernoulli(g, call, 1); })
TNX_RANDOM("native_dropout", { return dropout(g, call); })
TNX_LOWER("native_dropout_backward", {
  const Type type = compute_type(call.out().type);
  return {
      g.mul(g.mul(call.operand(g, 0, type), call.operand(g, 1, type)), call.scalar(g, 2, type))};
})
TNX_LOWER_ROW("randperm", (Row{.random = true, .own_shapes = true}),
              { return permutation(g, call, 1); })
TNX_LOWER_ROW("randperm.generator", (Row{.random = true, .own_shapes = true}),
              { return permutation(g, call, 2); })
TNX_LOWER_ROW("multinomial", (Row{.random = true, .own_shapes = true}),
              { return multinomial(g, call); })

}  // namespace tnx
