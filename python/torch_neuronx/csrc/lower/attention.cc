// SPDX-License-Identifier: Apache-2.0
// Scaled dot product attention as one program, forward and backward. Which calls come here is
// decided in aten/attention.cc. Scores and softmax are f32; the backward pass makes the weights
// again.
#include <algorithm>
#include <cmath>
#include <optional>

#include "python/torch_neuronx/csrc/lower/reduce.h"

namespace tnx {
namespace {

// query [B, H, S, D], key [B, G, L, D], value [B, G, L, E] with H a multiple of G: the heads that
// share a key are rows of one product, so that no key is repeated.
struct Attention {
  Type type = kF32;
  Value query;  // scaled
  Value key;
  Value value;
  Value scale;  // 0-d
};

Attention attention_of(Graph& g, const Call& call, size_t at, size_t scale_at) {
  const Value& query = call.tensor(at);
  Attention a;
  a.type = compute_type(query.type);
  a.key = call.operand(g, at + 1, a.type);
  a.value = call.operand(g, at + 2, a.type);
  a.scale = call.has(scale_at)
                ? call.scalar(g, scale_at, a.type)
                : g.constant(a.type, 1 / std::sqrt(static_cast<double>(query.dims[3])));
  a.query = g.mul(g.convert(query, a.type), a.scale);
  return a;
}

// Queries `first` .. `last` and how many keys they see: causal attention is done in parts, so that
// most of what is masked off is never computed.
struct Part {
  int64_t first;
  int64_t last;
  int64_t keys;
};

std::vector<Part> parts_of(const Attention& a, bool causal) {
  constexpr int64_t kLeast = 64;     // queries: enough for an efficient product
  constexpr int64_t kMostParts = 4;  // more make no difference
  const int64_t queries = a.query.dims[2];
  const int64_t keys = a.key.dims[2];
  if (!causal) {
    return {{0, queries, keys}};
  }
  const int64_t step = std::max(kLeast, (queries + kMostParts - 1) / kMostParts);
  std::vector<Part> parts;
  for (int64_t first = 0; first < queries; first += step) {
    // What is left over would make a small part: it goes with the one before.
    const int64_t last = first + step + kLeast / 2 >= queries ? queries : first + step;
    parts.push_back({first, last, std::min(last, keys)});
    if (last == queries) {
      break;
    }
  }
  return parts;
}

Value rows_of(Graph& g, const Value& x, int64_t first, int64_t last) {
  return g.narrow(x, 2, first, last - first);
}

// [B, H, n, X] as [B, G, H / G * n, X].
Value grouped(Graph& g, const Value& x, const Attention& a) {
  const int64_t groups = a.key.dims[1];
  return g.reshape(x, {x.dims[0], groups, x.dims[1] / groups * x.dims[2], x.dims[3]});
}

// Products per batch and group, contracting dimension `i` of a with dimension `j` of b.
Value per_group(Graph& g, const Value& a, const Value& b, int64_t i, int64_t j) {
  return g.dot(a, b, {i}, {j}, {0, 1}, {0, 1}, a.type);
}

// Products of queries' rows, as [B, H, n, X].
Value by_head(Graph& g, const Value& products, const Value& queries) {
  return g.reshape(products, {queries.dims[0], queries.dims[1], queries.dims[2], products.dims[3]});
}

// [B, H, n, keys] of a part: scaled query x key, plus the mask; -inf for what is masked off. Masks
// are made numbers in their own shape, which is the smaller one.
Value scores_of(Graph& g, const Call& call, const Attention& a, const Part& part, size_t bias_at,
                bool causal) {
  const Value query = rows_of(g, a.query, part.first, part.last);
  const Value key = rows_of(g, a.key, 0, part.keys);
  Value scores = by_head(g, per_group(g, grouped(g, query, a), key, 3, 3), query);
  const auto mask = [&](const Value& seen) {
    return g.select(seen, g.constant(a.type, 0), g.constant(a.type, -INFINITY));
  };
  if (call.has(bias_at)) {
    const Value& bias = call.tensor(bias_at);
    scores = g.add(scores, bias.type == kPred ? mask(bias) : g.convert(bias, a.type));
  }
  if (causal) {  // query i sees keys 0 .. i
    const Dims square = {part.last - part.first, part.keys};
    const Value number =
        g.add(g.iota(kS32, square, 0), g.broadcast(g.integer(kS32, part.first), square, {}));
    scores = g.add(scores, mask(g.compare("GE", number, g.iota(kS32, square, 1))));
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
  const bool causal = call.flag(5);
  std::vector<Value> outputs;
  std::vector<Value> logarithms;
  for (const Part& part : parts_of(a, causal)) {
    const Value scores = scores_of(g, call, a, part, 3, causal);
    const Weights w = weights_of(g, scores);
    const Value value = rows_of(g, a.value, 0, part.keys);
    const Value products = per_group(g, grouped(g, w.exponentials, a), value, 3, 2);
    outputs.push_back(g.div(by_head(g, products, scores), w.divisor));
    logarithms.push_back(w.logarithm);
  }
  std::vector<Value> results(call.outs().size());
  results[0] = g.concat(outputs, 2);
  results[1] = g.reshape(g.concat(logarithms, 2), call.out(1).dims);
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

// The sum of what parts give for their keys, the first ones.
Value sum_over_parts(Graph& g, const std::vector<Value>& parts, const Dims& dims) {
  std::optional<Value> sum;
  for (const Value& part : parts) {
    const int64_t rest = dims[2] - part.dims[2];
    const Value whole =
        rest == 0 ? part : g.pad(part, g.constant(part.type, 0), {0, 0, 0, 0}, {0, 0, rest, 0});
    sum = sum ? g.add(*sum, whole) : whole;
  }
  return *sum;
}

// grad, query, key, value, attn_bias, grad_input_mask, out, logsumexp, cum_seq_q, cum_seq_k, max_q,
// max_k, dropout_p, is_causal, philox_seed, philox_offset, scale
std::vector<Value> attention_backward(Graph& g, const Call& call) {
  const Attention a = attention_of(g, call, 1, 16);
  const bool causal = call.flag(13);
  const Dims& wanted = call.ints(5);
  const Value grad = call.operand(g, 0, a.type);
  std::vector<Value> queries;
  std::vector<Value> keys;
  std::vector<Value> values;
  std::vector<Value> results(4);
  for (const Part& part : parts_of(a, causal)) {
    const auto rows = [&](const Value& x) { return rows_of(g, x, part.first, part.last); };
    const Value scores = scores_of(g, call, a, part, 4, causal);
    const Weights w = weights_of(g, scores);
    const Value inverse = g.div(g.like(w.divisor, 1), w.divisor);
    const Value weights = g.mul(w.exponentials, inverse);
    const Value part_grad = grouped(g, rows(grad), a);
    const Value value = rows_of(g, a.value, 0, part.keys);
    // The gradient of softmax: weights * (slope - the row's mean of slopes by weight). That mean is
    // grad x output too, and the weights are exp(score - saved logarithm), but then the difference
    // would not be 0 for one key with all the weight.
    const Value slope = by_head(g, per_group(g, part_grad, value, 3, 3), scores);
    const Value mean = g.sum(g.mul(weights, slope), {3}, true);
    const Value through = g.mul(weights, g.sub(slope, mean));
    const Value rows_through = grouped(g, through, a);
    if (wanted[0] != 0) {
      const Value key = rows_of(g, a.key, 0, part.keys);
      queries.push_back(by_head(g, per_group(g, rows_through, key, 3, 2), scores));
    }
    if (wanted[1] != 0) {
      keys.push_back(per_group(g, rows_through, grouped(g, rows(a.query), a), 2, 2));
    }
    if (wanted[2] != 0) {
      values.push_back(per_group(g, grouped(g, weights, a), part_grad, 2, 2));
    }
    if (wanted[3] != 0 && call.has(4) && call.tensor(4).type != kPred) {
      results[3] = sum_to(g, through, call.tensor(4).dims);  // without parts: masks aren't causal
    }
  }
  if (wanted[0] != 0) {
    results[0] = g.mul(g.concat(queries, 2), a.scale);
  }
  if (wanted[1] != 0) {
    results[1] = sum_over_parts(g, keys, a.key.dims);
  }
  if (wanted[2] != 0) {
    results[2] = sum_over_parts(g, values, a.value.dims);
  }
  return results;
}

}  // namespace

TNX_LOWER("_scaled_dot_product_fused_attention_overrideable", { return attention(g, call); })
TNX_LOWER("_scaled_dot_product_fused_attention_overrideable_backward",
          { return attention_backward(g, call); })

}  // namespace tnx
