// SPDX-License-Identifier: Apache-2.0
// Normalisation and embedding. Statistics are computed in f32; formulas are those of torch's
// documentation, gradients their derivatives.
#include "python/torch_neuronx/csrc/lower/reduce.h"

namespace tnx {
namespace {

Value floated(Graph& g, const Value& x) { return g.convert(x, compute_type(x.type)); }

Value inverse_root(Graph& g, const Value& variance, const Value& eps) {
  return g.rsqrt(g.add(variance, eps));
}

// Gradient of the input, of y = (x - mean) * rstd over dims, where `grad` is that of y and `hat` is
// y: rstd * (grad - mean(grad) - hat * mean(grad * hat)).
Value input_gradient(Graph& g, const Value& grad, const Value& hat, const Value& rstd,
                     const Dims& dims) {
  const Value center = mean_of(g, grad, dims, true);
  const Value slope = mean_of(g, g.mul(grad, hat), dims, true);
  return g.mul(rstd, g.sub(g.sub(grad, center), g.mul(hat, slope)));
}

// ---- over the last dimensions -------------------------------------------------------------------

// The last dimensions, as many as argument i has numbers.
Dims last_dims(const Call& call, size_t i, const Value& x) {
  return dim_range(x.rank() - static_cast<int64_t>(call.ints(i).size()), x.rank());
}

std::vector<Value> layer_norm(Graph& g, const Call& call) {
  // x, normalized_shape, weight, bias, eps
  const Value x = floated(g, call.tensor(0));
  const Dims dims = last_dims(call, 1, x);
  const Value mean = mean_of(g, x, dims, true);
  const Value away = g.sub(x, mean);
  const Value variance = mean_of(g, g.mul(away, away), dims, true);
  const Value rstd = inverse_root(g, variance, call.scalar(g, 4, x.type));
  Value y = g.mul(away, rstd);
  if (call.has(2)) {
    y = g.mul(y, call.operand(g, 2, x.type));
  }
  if (call.has(3)) {
    y = g.add(y, call.operand(g, 3, x.type));
  }
  return {y, g.reshape(mean, call.out(1).dims), g.reshape(rstd, call.out(2).dims)};
}

// grad, x, normalized_shape, mean, rstd, weight, bias, output_mask
std::vector<Value> layer_norm_backward(Graph& g, const Call& call) {
  const Value x = floated(g, call.tensor(1));
  const Value grad = call.operand(g, 0, x.type);
  const Dims dims = last_dims(call, 2, x);
  const Dims rows = dim_range(0, x.rank() - static_cast<int64_t>(dims.size()));
  const Value rstd = call.operand(g, 4, x.type);
  const Value hat = g.mul(g.sub(x, call.operand(g, 3, x.type)), rstd);
  const Dims& mask = call.ints(7);
  std::vector<Value> results(3);
  if (mask[0] != 0) {
    const Value scaled = call.has(5) ? g.mul(grad, call.operand(g, 5, x.type)) : grad;
    results[0] = input_gradient(g, scaled, hat, rstd, dims);
  }
  if (mask[1] != 0 && call.has(5)) {
    results[1] = fold(g, "add", g.mul(grad, hat), rows);
  }
  if (mask[2] != 0 && call.has(6)) {
    results[2] = fold(g, "add", grad, rows);
  }
  return results;
}

// x, normalized_shape, weight, eps
std::vector<Value> rms_norm(Graph& g, const Call& call) {
  const Value x = floated(g, call.tensor(0));
  // Without eps: the smallest step at 1 of the type that is computed in.
  const Value eps = call.has(3) ? call.scalar(g, 3, x.type) : g.constant(x.type, 1.1920929e-07);
  const Value rstd = inverse_root(g, mean_of(g, g.mul(x, x), last_dims(call, 1, x), true), eps);
  Value y = g.mul(x, rstd);
  if (call.has(2)) {
    y = g.mul(y, call.operand(g, 2, x.type));
  }
  return {y, g.reshape(rstd, call.out(1).dims)};
}

// grad, x, normalized_shape, rstd, weight, output_mask
std::vector<Value> rms_norm_backward(Graph& g, const Call& call) {
  const Value x = floated(g, call.tensor(1));
  const Value grad = call.operand(g, 0, x.type);
  const Dims dims = last_dims(call, 2, x);
  const Value rstd = call.operand(g, 3, x.type);
  const Value hat = g.mul(x, rstd);
  const Dims& mask = call.ints(5);
  std::vector<Value> results(2);
  if (mask[0] != 0) {
    const Value scaled = call.has(4) ? g.mul(grad, call.operand(g, 4, x.type)) : grad;
    const Value slope = mean_of(g, g.mul(scaled, hat), dims, true);
    results[0] = g.mul(rstd, g.sub(scaled, g.mul(hat, slope)));
  }
  if (mask[1] != 0 && call.has(4)) {
    const Dims rows = dim_range(0, x.rank() - static_cast<int64_t>(dims.size()));
    results[1] = fold(g, "add", g.mul(grad, hat), rows);
  }
  return results;
}

}  // namespace

TNX_LOWER("native_layer_norm", { return layer_norm(g, call); })
TNX_LOWER("native_layer_norm_backward", { return layer_norm_backward(g, call); })
TNX_LOWER("_fused_rms_norm", { return rms_norm(g, call); })
TNX_LOWER("_fused_rms_norm_backward", { return rms_norm_backward(g, call); })

// ---- over groups of channels --------------------------------------------------------------------

namespace {

// Shapes of a group norm: N, C, HxW, group from argument `at` on.
struct Groups {
  Dims whole;     // [N, group, C / group, HxW]
  Dims channels;  // [1, group, C / group, 1]
  Dims rows;      // [N, group, 1, 1]
};

Groups groups_of(const Call& call, size_t at) {
  const int64_t n = call.integer(at);
  const int64_t group = call.integer(at + 3);
  const int64_t each = call.integer(at + 1) / group;
  return {{n, group, each, call.integer(at + 2)}, {1, group, each, 1}, {n, group, 1, 1}};
}

std::vector<Value> group_norm(Graph& g, const Call& call) {
  // x, weight, bias, N, C, HxW, group, eps
  const Groups shape = groups_of(call, 3);
  const Value x = g.reshape(floated(g, call.tensor(0)), shape.whole);
  const Value mean = mean_of(g, x, {2, 3}, true);
  const Value away = g.sub(x, mean);
  const Value variance = mean_of(g, g.mul(away, away), {2, 3}, true);
  const Value rstd = inverse_root(g, variance, call.scalar(g, 7, x.type));
  Value y = g.mul(away, rstd);
  if (call.has(1)) {
    y = g.mul(y, g.reshape(call.operand(g, 1, x.type), shape.channels));
  }
  if (call.has(2)) {
    y = g.add(y, g.reshape(call.operand(g, 2, x.type), shape.channels));
  }
  return {g.reshape(y, call.out(0).dims), g.reshape(mean, call.out(1).dims),
          g.reshape(rstd, call.out(2).dims)};
}

// grad, x, mean, rstd, weight, N, C, HxW, group, output_mask
std::vector<Value> group_norm_backward(Graph& g, const Call& call) {
  const Groups shape = groups_of(call, 5);
  const Value x = g.reshape(floated(g, call.tensor(1)), shape.whole);
  const Value grad = g.reshape(call.operand(g, 0, x.type), shape.whole);
  const Value rstd = g.reshape(call.operand(g, 3, x.type), shape.rows);
  const Value mean = g.reshape(call.operand(g, 2, x.type), shape.rows);
  const Value hat = g.mul(g.sub(x, mean), rstd);
  const Dims& mask = call.ints(9);
  const Dims channels = {call.integer(6)};
  std::vector<Value> results(3);
  if (mask[0] != 0) {
    const Value scaled =
        call.has(4) ? g.mul(grad, g.reshape(call.operand(g, 4, x.type), shape.channels)) : grad;
    results[0] = g.reshape(input_gradient(g, scaled, hat, rstd, {2, 3}), call.tensor(1).dims);
  }
  if (mask[1] != 0) {
    results[1] = g.reshape(fold(g, "add", g.mul(grad, hat), {0, 3}), channels);
  }
  if (mask[2] != 0) {
    results[2] = g.reshape(fold(g, "add", grad, {0, 3}), channels);
  }
  return results;
}

}  // namespace

TNX_LOWER("native_group_norm", { return group_norm(g, call); })
TNX_LOWER("native_group_norm_backward", { return group_norm_backward(g, call); })

// ---- over a batch -------------------------------------------------------------------------------

namespace {

// All dimensions but that of the channels.
Dims batch_dims(const Value& x) {
  Dims dims = {0};
  const Dims spatial = dim_range(2, x.rank());
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

// A value per channel, shaped to meet x.
Value per_channel(Graph& g, const Value& value, const Value& x) {
  Dims dims(x.dims.size(), 1);
  dims[1] = x.dims[1];
  return g.reshape(value, dims);
}

// Positions of the arguments, which differ between the variants; -1: there is none.
struct BatchNorm {
  int mean = 3;  // running statistics; variance follows
  int momentum = 6;
  bool training = true;
};

// Momentum is followed by eps. Results: y, mean and 1 / deviation of the batch, and the new running
// statistics where there are some.
std::vector<Value> batch_norm(Graph& g, const Call& call, const BatchNorm& at) {
  const Value x = floated(g, call.tensor(0));
  const auto running = static_cast<size_t>(std::max(at.mean, 0));
  const auto momentum_at = static_cast<size_t>(at.momentum);
  const bool mean_given = at.mean >= 0 && call.has(running);
  const bool variance_given = at.mean >= 0 && call.has(running + 1);
  if (!at.training && (!mean_given || !variance_given)) {
    throw Unsupported("batch norm in evaluation without running statistics");
  }
  const Dims dims = batch_dims(x);
  Value mean;
  Value variance;
  if (at.training) {
    mean = mean_of(g, x, dims);
    variance = variance_of(g, x, per_channel(g, mean, x), dims);
  } else {
    mean = call.operand(g, running, x.type);
    variance = call.operand(g, running + 1, x.type);
  }
  const Value invstd = inverse_root(g, variance, call.scalar(g, momentum_at + 1, x.type));
  Value y = g.mul(g.sub(x, per_channel(g, mean, x)), per_channel(g, invstd, x));
  if (call.has(1)) {
    y = g.mul(y, per_channel(g, call.operand(g, 1, x.type), x));
  }
  if (call.has(2)) {
    y = g.add(y, per_channel(g, call.operand(g, 2, x.type), x));
  }
  // The batch's statistics; nothing in evaluation, where the running ones serve.
  const Value none = g.zeros(x.type, {0});
  std::vector<Value> results = {y, at.training ? mean : none, at.training ? invstd : none};
  if (call.outs().size() > 3 && at.mean >= 0 && call.out(3).type == kU8) {
    results.emplace_back();  // the reserve of _batch_norm_with_update: nothing is kept in it
  }
  const auto count = static_cast<double>(reduced_count(x, dims));
  const auto blend = [&](size_t argument, const Value& now) {
    const Value old = call.operand(g, argument, x.type);
    const Value momentum = call.scalar(g, momentum_at, x.type);
    results.push_back(
        at.training ? g.add(g.mul(old, g.sub(g.like(momentum, 1), momentum)), g.mul(now, momentum))
                    : Value{});
  };
  if (mean_given) {
    blend(running, mean);
  }
  if (variance_given) {
    blend(running + 1, g.mul(variance, g.like(variance, count / (count - 1))));
  }
  return results;
}

// grad, x, weight, running_mean, running_var, mean, invstd, train, eps, output_mask
std::vector<Value> batch_norm_backward(Graph& g, const Call& call) {
  const Value x = floated(g, call.tensor(1));
  const Value grad = call.operand(g, 0, x.type);
  const bool train = call.flag(7);
  const Value mean = call.operand(g, train ? 5 : 3, x.type);
  const Value invstd = train
                           ? call.operand(g, 6, x.type)
                           : inverse_root(g, call.operand(g, 4, x.type), call.scalar(g, 8, x.type));
  const Value hat = g.mul(g.sub(x, per_channel(g, mean, x)), per_channel(g, invstd, x));
  const Dims dims = batch_dims(x);
  const Dims& mask = call.ints(9);
  const Value sum = fold(g, "add", grad, dims);
  const Value slope = fold(g, "add", g.mul(grad, hat), dims);
  std::vector<Value> results(3);
  if (mask[0] != 0) {
    // The weight is one number a channel: it stays out of the sums.
    const Value scale = call.has(2) ? g.mul(invstd, call.operand(g, 2, x.type)) : invstd;
    Value centered = grad;
    if (train && x.count() > 0) {
      const Value n = g.constant(x.type, static_cast<double>(reduced_count(x, dims)));
      centered = g.sub(grad, per_channel(g, g.div(sum, n), x));
      centered = g.sub(centered, g.mul(hat, per_channel(g, g.div(slope, n), x)));
    }
    results[0] = g.mul(centered, per_channel(g, scale, x));
  }
  if (mask[1] != 0) {
    results[1] = slope;
  }
  if (mask[2] != 0) {
    results[2] = sum;
  }
  return results;
}

}  // namespace

// x, weight, bias, running_mean, running_var, training, momentum, eps
TNX_LOWER_ROW("native_batch_norm", (Row{.writes = {3, 4}}),
              { return batch_norm(g, call, {.mean = 3, .momentum = 6, .training = call.flag(5)}); })
TNX_LOWER_ROW("_native_batch_norm_legit", (Row{.writes = {3, 4}}),
              { return batch_norm(g, call, {.mean = 3, .momentum = 6, .training = call.flag(5)}); })
TNX_LOWER("_native_batch_norm_legit.no_stats",
          { return batch_norm(g, call, {.mean = -1, .momentum = 4, .training = call.flag(3)}); })
TNX_LOWER("_native_batch_norm_legit_no_training", {
  std::vector<Value> results = batch_norm(g, call, {.mean = 3, .momentum = 5, .training = false});
  results.resize(3);
  return results;
})
TNX_LOWER_ROW("_batch_norm_with_update", (Row{.writes = {3, 4}}),
              { return batch_norm(g, call, {.mean = 3, .momentum = 5, .training = true}); })
TNX_LOWER("native_batch_norm_backward", { return batch_norm_backward(g, call); })
TNX_LOWER("batch_norm_backward", { return batch_norm_backward(g, call); })

// ---- embedding ----------------------------------------------------------------------------------

TNX_LOWER("embedding", {  // weight, indices, padding_idx, scale_grad_by_freq, sparse
  const Value& weight = call.tensor(0);
  if (weight.rank() != 2) {
    throw Error("'weight' must be 2-D");
  }
  const Value index = g.convert(call.tensor(1), kS64);
  call.check_range(g, index, 0, weight.dims[0], "index out of range in self: {}");
  return {g.reshape(g.index_select(weight, g.reshape(index, {index.count()}), 0), call.out().dims)};
})
TNX_LOWER("embedding_dense_backward", {  // grad, indices, num_weights, padding, scale_grad_by_freq
  const Type type = compute_type(call.out().type);
  const int64_t columns = call.out().dims[1];
  const int64_t count = call.tensor(1).count();
  const Value zeros = g.zeros(type, call.out().dims);
  if (count == 0) {
    return {zeros};
  }
  const Value index = g.reshape(g.convert(call.tensor(1), kS64), {count, 1});
  Value grad = g.reshape(call.operand(g, 0, type), {count, columns});
  Graph::GatherDims dims;
  dims.collapsed = {0};
  dims.index_map = {0};
  dims.index_vector = 1;
  if (call.flag(4)) {  // each row's gradient by how often it was used
    const Value ones = g.full(type, {count}, 1);
    const Value uses = g.scatter("add", g.zeros(type, {call.integer(2)}), index, ones, dims);
    grad = g.div(grad, g.reshape(g.index_select(uses, g.reshape(index, {count}), 0), {count, 1}));
  }
  const Value padding =
      g.compare("EQ", index, g.broadcast(call.scalar(g, 3, kS64), index.dims, {}));
  dims.offset = {1};
  return {g.scatter("add", zeros, index, g.select(padding, g.like(grad, 0), grad), dims)};
})

}  // namespace tnx
