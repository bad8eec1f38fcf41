// SPDX-License-Identifier: Apache-2.0
// Scaled dot product attention as one program, forward and backward. Which calls come here is
// decided in aten/attention.cc. Scores and softmax are f32; the backward pass makes the scores
// again from the saved logarithm of the sum.
#include <cmath>

#include "python/torch_neuronx/csrc/lower/reduce.h"

namespace tnx {
namespace {

// query [B, H, S, D], key [B, G, L, D], value [B, G, L, E] with H a multiple of G: the heads that
// share a key are rows of one product, so that no key is repeated.
struct Attention {
  Type type = kF32;
  Value query;  // [B, G, H / G * S, D]
  Value key;
  Value value;
  Value scale;    // 0-d
  Dims scores;    // [B, H, S, L]
  Dims by_group;  // [B, G, H / G * S, L]
};

Attention attention_of(Graph& g, const Call& call, size_t at, size_t scale_at) {
  const Value& query = call.tensor(at);
  Attention a;
  a.type = compute_type(query.type);
  a.key = call.operand(g, at + 1, a.type);
  a.value = call.operand(g, at + 2, a.type);
  const int64_t batch = query.dims[0];
  const int64_t groups = a.key.dims[1];
  const int64_t rows = query.dims[1] / groups * query.dims[2];
  const int64_t keys = a.key.dims[2];
  a.query = g.reshape(g.convert(query, a.type), {batch, groups, rows, query.dims[3]});
  a.scale = call.has(scale_at)
                ? call.scalar(g, scale_at, a.type)
                : g.constant(a.type, 1 / std::sqrt(static_cast<double>(query.dims[3])));
  a.scores = {batch, query.dims[1], query.dims[2], keys};
  a.by_group = {batch, groups, rows, keys};
  return a;
}

// Products per batch and group, contracting dimension `i` of a with dimension `j` of b.
Value per_group(Graph& g, const Value& a, const Value& b, int64_t i, int64_t j) {
  return g.dot(a, b, {i}, {j}, {0, 1}, {0, 1}, a.type);
}

// [B, H, S, L]: scaled query x key, plus the mask; -inf for what is masked off. Masks are made
// numbers in their own shape, which is the smaller one.
Value scores_of(Graph& g, const Call& call, const Attention& a, size_t bias_at, size_t causal_at) {
  const Value query = g.mul(a.query, a.scale);
  Value scores = g.reshape(per_group(g, query, a.key, 3, 3), a.scores);
  const auto mask = [&](const Value& seen) {
    return g.select(seen, g.constant(a.type, 0), g.constant(a.type, -INFINITY));
  };
  if (call.has(bias_at)) {
    const Value& bias = call.tensor(bias_at);
    scores = g.add(scores, bias.type == kPred ? mask(bias) : g.convert(bias, a.type));
  }
  if (call.flag(causal_at)) {  // query i sees keys 0 .. i
    const Dims square = {a.scores[2], a.scores[3]};
    const Value seen = g.compare("GE", g.iota(kS32, square, 0), g.iota(kS32, square, 1));
    scores = g.add(scores, mask(seen));
  }
  return scores;
}

// Softmax of scores in parts: exponentials, their sum (1 for rows that are masked off, whose
// exponentials are 0) and the logarithm of the sum.
struct Weights {
  Value exponentials;
  Value divisor;
  Value logarithm;
};

Weights weights_of(Graph& g, const Value& scores) {
  const Value most = g.reduce("maximum", scores, {3}, true);
  // Of a row that is masked off the maximum is -inf: 0 keeps its exponentials 0.
  const Value base =
      g.select(g.compare("EQ", most, g.like(most, -INFINITY)), g.like(most, 0), most);
  Weights w;
  w.exponentials = g.exp(g.sub(scores, base));
  const Value sum = g.sum(w.exponentials, {3}, true);
  w.divisor = g.select(g.compare("EQ", sum, g.like(sum, 0)), g.like(sum, 1), sum);
  w.logarithm = g.add(g.log(sum), base);
  return w;
}

// query, key, value, attn_bias, dropout_p, is_causal, return_debug_mask, scale
std::vector<Value> attention(Graph& g, const Call& call) {
  const Attention a = attention_of(g, call, 0, 7);
  const Weights w = weights_of(g, scores_of(g, call, a, 3, 5));
  const Value products = per_group(g, g.reshape(w.exponentials, a.by_group), a.value, 3, 2);
  Dims dims = a.scores;
  dims[3] = a.value.dims[3];
  std::vector<Value> results(call.outs().size());
  results[0] = g.div(g.reshape(products, dims), w.divisor);
  results[1] = g.reshape(w.logarithm, call.out(1).dims);
  return results;
}

// x summed over what was broadcast from `dims`.
Value sum_to(Graph& g, const Value& x, const Dims& dims) {
  const auto lead = static_cast<int64_t>(x.dims.size() - dims.size());
  Dims over = dim_range(0, lead);
  for (size_t d = 0; d < dims.size(); ++d) {
    const auto at = static_cast<size_t>(lead) + d;
    if (dims[d] == 1 && x.dims[at] != 1) {
      over.push_back(static_cast<int64_t>(at));
    }
  }
  return g.reshape(g.sum(x, over), dims);
}

// grad, query, key, value, attn_bias, grad_input_mask, out, logsumexp, cum_seq_q, cum_seq_k, max_q,
// max_k, dropout_p, is_causal, philox_seed, philox_offset, scale
std::vector<Value> attention_backward(Graph& g, const Call& call) {
  const Attention a = attention_of(g, call, 1, 16);
  const Dims& wanted = call.ints(5);
  const Value grad = call.operand(g, 0, a.type);
  const Dims grad_by_group = {a.by_group[0], a.by_group[1], a.by_group[2], a.value.dims[3]};
  const Value grouped = g.reshape(grad, grad_by_group);
  const Weights w = weights_of(g, scores_of(g, call, a, 4, 13));
  const Value weights = g.div(w.exponentials, w.divisor);
  // The gradient of softmax: weights * (slope - the row's mean of slopes by weight).
  const Value slope = g.reshape(per_group(g, grouped, a.value, 3, 3), a.scores);
  const Value mean = g.sum(g.mul(weights, slope), {3}, true);
  const Value through = g.mul(weights, g.sub(slope, mean));
  const Value scaled = g.reshape(g.mul(through, a.scale), a.by_group);
  std::vector<Value> results(4);
  if (wanted[0] != 0) {
    results[0] = g.reshape(per_group(g, scaled, a.key, 3, 2), call.tensor(1).dims);
  }
  if (wanted[1] != 0) {
    results[1] = per_group(g, scaled, a.query, 2, 2);
  }
  if (wanted[2] != 0) {
    results[2] = per_group(g, g.reshape(weights, a.by_group), grouped, 2, 2);
  }
  if (wanted[3] != 0 && call.has(4) && call.tensor(4).type != kPred) {
    results[3] = sum_to(g, through, call.tensor(4).dims);
  }
  return results;
}

}  // namespace

TNX_LOWER("_scaled_dot_product_fused_attention_overrideable", { return attention(g, call); })
TNX_LOWER("_scaled_dot_product_fused_attention_overrideable_backward",
          { return attention_backward(g, call); })

}  // namespace tnx
