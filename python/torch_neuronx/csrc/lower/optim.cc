// SPDX-License-Identifier: Apache-2.0
// Operations on lists of tensors and the updates of optimizers: one program for the whole list.
// Learning rates, decays and steps are inputs of the program.
#include <cmath>
#include <limits>
#include <string>

#include "python/torch_neuronx/csrc/lower/lowering.h"

namespace tnx {
namespace {

// Row `name` for each element of the lists. What has no elements needs no result.
std::vector<Value> each(Graph& g, const Call& call, const std::string& name, size_t list = 0) {
  const Row* row = find_row(name);
  if (row == nullptr) {
    throw Unsupported("no lowering of " + name);
  }
  std::vector<Value> results;
  const auto& tensors = call.optional_tensors(list);
  for (size_t e = 0; e < tensors.size(); ++e) {
    results.push_back(tensors[e]->count() == 0 ? Value{}
                                               : row->lower(g, call.element(name, e)).at(0));
  }
  return results;
}

}  // namespace

#define TNX_EACH(name, row) TNX_LOWER("_foreach_" name, { return each(g, call, row); })
#define TNX_EACH_SAME(name) TNX_EACH(name, name)
TNX_EACH_SAME("abs")
TNX_EACH_SAME("acos")
TNX_EACH_SAME("asin")
TNX_EACH_SAME("atan")
TNX_EACH_SAME("ceil")
TNX_EACH_SAME("cos")
TNX_EACH_SAME("cosh")
TNX_EACH_SAME("erf")
TNX_EACH_SAME("erfc")
TNX_EACH_SAME("exp")
TNX_EACH_SAME("expm1")
TNX_EACH_SAME("floor")
TNX_EACH_SAME("frac")
TNX_EACH_SAME("log")
TNX_EACH_SAME("log10")
TNX_EACH_SAME("log1p")
TNX_EACH_SAME("log2")
TNX_EACH_SAME("neg")
TNX_EACH_SAME("reciprocal")
TNX_EACH_SAME("round")
TNX_EACH_SAME("rsqrt")
TNX_EACH_SAME("sigmoid")
TNX_EACH_SAME("sign")
TNX_EACH_SAME("sin")
TNX_EACH_SAME("sinh")
TNX_EACH_SAME("sqrt")
TNX_EACH_SAME("tan")
TNX_EACH_SAME("tanh")
TNX_EACH_SAME("trunc")
TNX_EACH_SAME("zero")

TNX_EACH("add.Scalar", "add.Scalar")
TNX_EACH("add.List", "add.Tensor")
TNX_EACH("add.ScalarList", "add.Scalar")
TNX_EACH("add.Tensor", "add.Tensor")
TNX_EACH("sub.Scalar", "sub.Scalar")
TNX_EACH("sub.List", "sub.Tensor")
TNX_EACH("sub.ScalarList", "sub.Scalar")
TNX_EACH("mul.Scalar", "mul.Scalar")
TNX_EACH("mul.List", "mul.Tensor")
TNX_EACH("mul.ScalarList", "mul.Scalar")
TNX_EACH("mul.Tensor", "mul.Tensor")
TNX_EACH("div.Scalar", "div.Scalar")
TNX_EACH("div.List", "div.Tensor")
TNX_EACH("div.ScalarList", "div.Scalar")
TNX_EACH("div.Tensor", "div.Tensor")
TNX_EACH("maximum.Scalar", "clamp_min")
TNX_EACH("maximum.List", "maximum")
TNX_EACH("maximum.ScalarList", "clamp_min")
TNX_EACH("minimum.Scalar", "clamp_max")
TNX_EACH("minimum.List", "minimum")
TNX_EACH("minimum.ScalarList", "clamp_max")
TNX_EACH("clamp_min.Scalar", "clamp_min")
TNX_EACH("clamp_min.List", "clamp_min.Tensor")
TNX_EACH("clamp_min.ScalarList", "clamp_min")
TNX_EACH("clamp_max.Scalar", "clamp_max")
TNX_EACH("clamp_max.List", "clamp_max.Tensor")
TNX_EACH("clamp_max.ScalarList", "clamp_max")
TNX_EACH("addcmul.Scalar", "addcmul")
TNX_EACH("addcmul.ScalarList", "addcmul")
TNX_EACH("addcdiv.Scalar", "addcdiv")
TNX_EACH("addcdiv.ScalarList", "addcdiv")
TNX_EACH("lerp.List", "lerp.Tensor")
TNX_EACH("lerp.Scalar", "lerp.Scalar")
TNX_EACH("lerp.ScalarList", "lerp.Scalar")
TNX_EACH("pow.List", "pow.Tensor_Tensor")
TNX_LOWER_ROW("_foreach_pow.Scalar", (Row{.known = {1}}),
              { return each(g, call, "pow.Tensor_Scalar"); })
TNX_LOWER_ROW("_foreach_pow.ScalarList", (Row{.known = {1}}),
              { return each(g, call, "pow.Tensor_Scalar"); })
TNX_LOWER("_foreach_pow.ScalarAndTensor", { return each(g, call, "pow.Scalar", 1); })

// ---- one number of each -------------------------------------------------------------------------

namespace {

// (sum |x|^ord)^(1/ord) over all elements; `rooted`: with the root.
Value norm(Graph& g, const Value& x, double ord, Type type, bool rooted) {
  if (x.count() == 0) {
    return g.constant(type, 0);
  }
  const Value a = g.unary("abs", g.convert(x, type));
  const Dims dims = all_dims(x);
  if (std::isinf(ord)) {
    return g.reduce(ord > 0 ? "maximum" : "minimum", a, dims);
  }
  if (ord == 0) {
    return g.sum(g.convert(g.compare("NE", a, g.like(a, 0)), type), dims);
  }
  if (ord == 1) {
    return g.sum(a, dims);
  }
  if (ord == 2) {
    const Value sum = g.sum(g.mul(a, a), dims);
    return rooted ? g.sqrt(sum) : sum;
  }
  const Value sum = g.sum(g.binary("power", a, g.constant(type, ord)), dims);
  return rooted ? g.binary("power", sum, g.constant(type, 1 / ord)) : sum;
}

std::vector<Value> norms(Graph& g, const Call& call, bool rooted) {
  std::vector<Value> results;
  for (const Value& x : call.tensors(0)) {
    const Type type = compute_type(call.out(results.size()).type);
    results.push_back(norm(g, x, call.number(1), type, rooted));
  }
  return results;
}

}  // namespace

TNX_LOWER_ROW("_foreach_norm.Scalar", (Row{.known = {1}}), { return norms(g, call, true); })
TNX_LOWER_ROW("_foreach_powsum.Scalar", (Row{.known = {1}}), { return norms(g, call, false); })
TNX_LOWER("_foreach_max", {
  std::vector<Value> results;
  for (const Value& x : call.tensors(0)) {
    results.push_back(g.reduce(x.type == kPred ? "or" : "maximum", x, all_dims(x)));
  }
  return results;
})

// ---- optimizers
// -----------------------------------------------------------------------------------

namespace {

// Lists of one length that an update reads, by position, and what it gives for the ones it writes.
class Update {
 public:
  Update(Graph& g, const Call& call, size_t written, int grad_scale)
      : g_(g), call_(call), results_(written), scale_(static_cast<size_t>(grad_scale)) {
    for (auto& list : results_) {
      list.resize(count());
    }
    if (call.has(scale_ + 1)) {
      skip_ = g.compare("EQ", g.reshape(g.convert(call.tensor(scale_ + 1), kF32), {}),
                        g.constant(kF32, 1));
    }
  }

  size_t count() const { return call_.optional_tensors(0).size(); }
  // A list of steps has one for each element, or one for all.
  Value step(size_t list, size_t e) const {
    const bool one = call_.optional_tensors(list).size() == 1;
    return g_.reshape(get(list, one ? 0 : e), {});
  }
  bool has(size_t list) const { return !call_.optional_tensors(list).empty(); }
  Value number(size_t i) const { return g_.reshape(call_.operand(g_, i, kF32), {}); }
  Value get(size_t list, size_t e) const {
    return g_.convert(*call_.optional_tensors(list).at(e), kF32);
  }

  // The gradient: divided by the scale (and written so), turned round to maximize.
  Value gradient(size_t e, bool maximize) {
    Value grad = get(1, e);
    if (call_.has(scale_)) {
      grad = g_.div(grad, g_.reshape(g_.convert(call_.tensor(scale_), kF32), {}));
      set(1, e, grad);
    }
    return maximize ? g_.neg(grad) : grad;
  }

  void set(size_t list, size_t e, const Value& value) {
    results_[list][e] = skip_ ? g_.select(*skip_, get(list, e), value) : value;
  }

  // In the order of the schema's written lists; those that stay as they are have no result.
  std::vector<Value> results() const {
    std::vector<Value> all;
    for (size_t list = 0; list < results_.size(); ++list) {
      const auto n = static_cast<std::ptrdiff_t>(call_.optional_tensors(list).size());
      all.insert(all.end(), results_[list].begin(), results_[list].begin() + n);
    }
    return all;
  }

 private:
  Graph& g_;
  const Call& call_;
  std::vector<std::vector<Value>> results_;
  size_t scale_;
  std::optional<Value> skip_;  // a gradient was not finite: nothing changes
};

// Of what Adam does for all elements of a parameter, the numbers: x * kept - factor * first /
// (sqrt(second) + eps), which is torch's formula with both bias corrections moved out of it.
struct AdamStep {
  Value factor;
  Value eps;
};

// 1 - beta^step, without the difference of two numbers near 1.
Value bias_correction(Graph& g, const Value& beta, const Value& step) {
  return g.neg(g.unary("exponential-minus-one", g.mul(step, g.log(beta))));
}

AdamStep adam_step(Graph& g, const Update& update, const Value& step) {
  const Value root = g.sqrt(bias_correction(g, update.number(8), step));
  const Value size = g.div(update.number(6), bias_correction(g, update.number(7), step));
  return {g.mul(size, root), g.mul(update.number(10), root)};
}

// self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps; lr, beta1, beta2, weight_decay, eps,
// amsgrad, maximize, grad_scale, found_inf. Decoupled: the weights decay by themselves (AdamW).
std::vector<Value> adam(Graph& g, const Call& call, bool decoupled) {
  Update update(g, call, 5, 13);
  const Value one = g.constant(kF32, 1);
  const Value beta2 = update.number(8);
  const Value new1 = g.sub(one, update.number(7));
  const Value new2 = g.sub(one, beta2);
  const Value decay = update.number(9);
  const Value kept = g.sub(one, g.mul(update.number(6), decay));
  const bool same_step = call.optional_tensors(5).size() == 1;
  std::optional<AdamStep> numbers;
  for (size_t e = 0; e < update.count(); ++e) {
    Value x = update.get(0, e);
    if (x.count() == 0) {
      continue;
    }
    Value grad = update.gradient(e, call.flag(12));
    if (decoupled) {
      x = g.mul(x, kept);
    } else {
      grad = g.add(grad, g.mul(decay, x));
    }
    if (!same_step || !numbers) {
      numbers = adam_step(g, update, update.step(5, e));
    }
    const Value mean = update.get(2, e);
    const Value first = g.add(mean, g.mul(new1, g.sub(grad, mean)));
    const Value second = g.add(g.mul(beta2, update.get(3, e)), g.mul(g.mul(new2, grad), grad));
    Value bound = second;
    if (call.flag(11)) {
      bound = g.max(update.get(4, e), second);
      update.set(4, e, bound);
    }
    const Value distance = g.add(g.sqrt(bound), numbers->eps);
    update.set(0, e, g.sub(x, g.div(g.mul(numbers->factor, first), distance)));
    update.set(2, e, first);
    update.set(3, e, second);
  }
  return update.results();
}

// self, grads, momentum buffers; weight_decay, momentum, lr, dampening, nesterov, maximize,
// is_first_step, grad_scale, found_inf.
std::vector<Value> sgd(Graph& g, const Call& call) {
  Update update(g, call, 3, 10);
  const Value momentum = update.number(4);
  for (size_t e = 0; e < update.count(); ++e) {
    const Value x = update.get(0, e);
    if (x.count() == 0) {
      continue;
    }
    Value grad = g.add(update.gradient(e, call.flag(8)), g.mul(update.number(3), x));
    if (update.has(2)) {
      const Value kept = g.sub(g.constant(kF32, 1), update.number(6));
      const Value buffer =
          call.flag(9) ? grad : g.add(g.mul(momentum, update.get(2, e)), g.mul(kept, grad));
      update.set(2, e, buffer);
      grad = call.flag(7) ? g.add(grad, g.mul(momentum, buffer)) : buffer;
    }
    update.set(0, e, g.sub(x, g.mul(update.number(5), grad)));
  }
  return update.results();
}

// self, grads, state_sums, steps; lr, lr_decay, weight_decay, eps, maximize, grad_scale, found_inf.
std::vector<Value> adagrad(Graph& g, const Call& call) {
  Update update(g, call, 3, 9);
  const Value one = g.constant(kF32, 1);
  for (size_t e = 0; e < update.count(); ++e) {
    const Value x = update.get(0, e);
    if (x.count() == 0) {
      continue;
    }
    const Value grad = g.add(update.gradient(e, call.flag(8)), g.mul(update.number(6), x));
    const Value step = update.step(3, e);
    const Value lr = g.div(update.number(4), g.add(one, g.mul(g.sub(step, one), update.number(5))));
    const Value sum = g.add(update.get(2, e), g.mul(grad, grad));
    update.set(2, e, sum);
    update.set(0, e, g.sub(x, g.div(g.mul(lr, grad), g.add(g.sqrt(sum), update.number(7)))));
  }
  std::vector<Value> results = update.results();
  results.resize(results.size() + update.count());  // the steps stay
  return results;
}

}  // namespace

TNX_LOWER("_fused_adam_", { return adam(g, call, false); })
TNX_LOWER("_fused_adam_.tensor_lr", { return adam(g, call, false); })
TNX_LOWER("_fused_adamw_", { return adam(g, call, true); })
TNX_LOWER("_fused_adamw_.tensor_lr", { return adam(g, call, true); })
TNX_LOWER("_fused_sgd_", { return sgd(g, call); })
TNX_LOWER("_fused_sgd_.tensor_lr", { return sgd(g, call); })
TNX_LOWER("_fused_adagrad_", { return adagrad(g, call); })
TNX_LOWER("_fused_adagrad_.tensor_lr", { return adagrad(g, call); })

// ---- scaled gradients
// -----------------------------------------------------------------------------

// Gradients times 1/scale; found_inf becomes 1 where one isn't finite.
TNX_LOWER("_amp_foreach_non_finite_check_and_unscale_", {
  const Value inverse = g.reshape(g.convert(call.tensor(2), kF32), {});
  Value found = g.reshape(g.convert(call.tensor(1), kF32), {});
  std::vector<Value> results;
  for (const Value& given : call.tensors(0)) {
    if (given.count() == 0) {
      results.emplace_back();
      continue;
    }
    const Value x = g.convert(given, kF32);
    const Value bad = g.reduce("or", g.logical_not(g.is_finite(x)), all_dims(x));
    found = g.select(bad, g.constant(kF32, 1), found);
    results.push_back(g.mul(x, inverse));
  }
  results.push_back(g.reshape(found, call.tensor(1).dims));
  return results;
})

// scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval
TNX_LOWER("_amp_update_scale_", {
  const Value scale = g.reshape(call.tensor(0), {});
  const Value steps = g.reshape(call.tensor(1), {});
  const Value bad =
      g.compare("NE", g.reshape(g.convert(call.tensor(2), kF32), {}), g.constant(kF32, 0));
  const Value next = g.add(steps, g.integer(steps.type, 1));
  const Value grows = g.compare("EQ", next, g.integer(steps.type, call.integer(5)));
  const Value larger = g.mul(scale, call.scalar(g, 3, scale.type));
  const Value grown = g.select(g.is_finite(larger), larger, scale);
  const Value smaller = g.mul(scale, call.scalar(g, 4, scale.type));
  const Value zero = g.integer(steps.type, 0);
  return {g.reshape(g.select(bad, smaller, g.select(grows, grown, scale)), call.tensor(0).dims),
          g.reshape(g.select(bad, zero, g.select(grows, zero, next)), call.tensor(1).dims)};
})

}  // namespace tnx
