// SPDX-License-Identifier: Apache-2.0
// Batch normalisation as reductions and elementwise operations in f32, whatever the element type;
// results are rounded once. With n values per feature, r = rsqrt(variance + epsilon):
//   training:  mean = sum(x) / n, variance = sum((x - mean)^2) / n
//   out        = (x - mean) * r * scale + offset
//   gradients: d_offset = sum(dy), d_scale = sum(dy * (x - mean)) * r
//              dx = scale * r / n * ((n * dy - sum(dy)) - (x - mean) * (sum(dy * (x - mean)) * (r *
//              r)))
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "compiler/hir/infer.h"
#include "compiler/hir/status.h"
#include "compiler/lowering/lowerer.h"
#include "compiler/reference/interpreter.h"
#include "emulator/isa/reduce_order.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

// Operand `i` holds one value per feature.
Status require_features(const InferContext& context, size_t i, ShapeId expected) {
  if (context.operand_id(i) != expected) {
    return context.wrong(format("operand {}: expected {}, found {}", i, context.text(expected),
                                context.text(context.operand_id(i))));
  }
  return ok_status();
}

// The type of one value per feature; checks the attributes and operand 0.
Result<ShapeId> features_of(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& operand = context.operand(0);
  const Attribute* epsilon = context.find(AttributeKey::kEpsilon);
  if (epsilon == nullptr || epsilon->data.size() != sizeof(float)) {
    return context.wrong("attribute epsilon: expected 4 bytes, an f32");
  }
  ONRT_ASSIGN_OR_RETURN(const auto feature, context.exactly(AttributeKey::kDimensions, 1));
  if (!is_floating(operand.dtype) || feature[0] < 0 ||
      feature[0] >= static_cast<int64_t>(operand.rank())) {
    return context.wrong(format("operand 0: expected floats with a feature dimension {}, found {}",
                                feature[0], context.text(context.operand_id(0))));
  }
  if (operand.element_count == 0) {
    return context.wrong(
        format("operand 0: expected elements, found {}", context.text(context.operand_id(0))));
  }
  const int64_t dims[] = {operand.dims[static_cast<size_t>(feature[0])]};
  return context.array(operand.dtype, dims);
}

}  // namespace

// operand, scale, offset -> (normalised, mean, variance).
Result<ShapeId> infer_batch_norm_training(const InferContext& context) {
  ONRT_ASSIGN_OR_RETURN(const ShapeId features, features_of(context));
  ONRT_RETURN_IF_ERROR(require_features(context, 1, features));
  ONRT_RETURN_IF_ERROR(require_features(context, 2, features));
  const std::array<ShapeId, 3> results = {context.operand_id(0), features, features};
  return context.shapes().tuple(results);
}

// operand, scale, offset, mean, variance -> normalised.
Result<ShapeId> infer_batch_norm_inference(const InferContext& context) {
  ONRT_ASSIGN_OR_RETURN(const ShapeId features, features_of(context));
  for (size_t i = 1; i < 5; ++i) {
    ONRT_RETURN_IF_ERROR(require_features(context, i, features));
  }
  return context.operand_id(0);
}

// operand, scale, mean, variance, gradient of the result -> (gradients of operand, scale, offset).
Result<ShapeId> infer_batch_norm_grad(const InferContext& context) {
  ONRT_ASSIGN_OR_RETURN(const ShapeId features, features_of(context));
  for (size_t i = 1; i < 4; ++i) {
    ONRT_RETURN_IF_ERROR(require_features(context, i, features));
  }
  ONRT_RETURN_IF_ERROR(require_features(context, 4, context.operand_id(0)));
  const std::array<ShapeId, 3> results = {context.operand_id(0), features, features};
  return context.shapes().tuple(results);
}

}  // namespace onrt::hir

namespace onrt::reference {
namespace {

using hir::AttributeKey;
using ncx::Boxed;
using ncx::ScalarOp;

Boxed number(float value) { return std::bit_cast<uint32_t>(value); }

Boxed apply(ScalarOp op, Boxed a, Boxed b = 0) {
  const Boxed terms[] = {a, b};
  return ncx::evaluate(op, Dtype::kF32, Dtype::kF32, terms, 0, 0);
}
Boxed add(Boxed a, Boxed b) { return apply(ScalarOp::kAdd, a, b); }
Boxed subtract(Boxed a, Boxed b) { return apply(ScalarOp::kSubtract, a, b); }
Boxed multiply(Boxed a, Boxed b) { return apply(ScalarOp::kMultiply, a, b); }
Boxed divide(Boxed a, Boxed b) { return apply(ScalarOp::kDivide, a, b); }

class BatchNorm {
 public:
  explicit BatchNorm(Operation& operation)
      : operation_(operation),
        feature_(static_cast<size_t>(operation.ints(AttributeKey::kDimensions)[0])),
        features_(operation.operand(0).dims[feature_]),
        n_(number(static_cast<float>(operation.operand(0).elements() / features_))) {
    float epsilon = 0;
    std::memcpy(&epsilon, hir::find(operation.attributes, AttributeKey::kEpsilon)->data.data(),
                sizeof epsilon);
    epsilon_ = number(epsilon);
  }

  Boxed n() const { return n_; }
  // Floats of a vector with one value per feature.
  std::vector<Boxed> vector(size_t operand) const {
    std::vector<Boxed> values;
    for (int64_t i = 0; i < features_; ++i) {
      values.push_back(operation_.operand(operand).get(i));
    }
    return values;
  }
  std::vector<Boxed> reciprocal_deviation(const std::vector<Boxed>& variance) const {
    std::vector<Boxed> values;
    for (const Boxed v : variance) {
      values.push_back(apply(ScalarOp::kRsqrt, add(v, epsilon_)));
    }
    return values;
  }
  // Calls value(feature, position) for each element of operand 0 and sums by feature.
  template <class Value>
  std::vector<Boxed> sum(const Value& value) const {
    std::vector<std::vector<Boxed>> terms(static_cast<size_t>(features_));
    for_each([&](size_t feature, int64_t position) {
      terms[feature].push_back(value(feature, position));
    });
    std::vector<Boxed> sums;
    for (std::vector<Boxed>& each : terms) {
      const auto combine = [](Boxed a, Boxed b) { return add(a, b); };
      sums.push_back(add(number(0), ncx::reduce_in_order(
                                        each.data(), static_cast<int64_t>(each.size()), combine)));
    }
    return sums;
  }
  template <class Visit>
  void for_each(const Visit& visit) const {
    for_each_index(operation_.operand(0).dims, [&](const Index& index, int64_t position) {
      visit(static_cast<size_t>(index[feature_]), position);
    });
  }
  void normalise(const std::vector<Boxed>& mean, const std::vector<Boxed>& variance) const {
    const std::vector<Boxed> r = reciprocal_deviation(variance);
    for_each([&](size_t f, int64_t at) {
      const Boxed scaled =
          multiply(multiply(subtract(operation_.operand(0).get(at), mean[f]), r[f]),
                   operation_.operand(1).get(static_cast<int64_t>(f)));
      set(0, at, add(scaled, operation_.operand(2).get(static_cast<int64_t>(f))));
    });
  }
  void set(size_t result, int64_t at, Boxed value) const {
    Tensor& tensor = operation_.results[result];
    tensor.set(at, ncx::settle_boxed(tensor.dtype, value));
  }
  void set_all(size_t result, const std::vector<Boxed>& values) const {
    for (size_t i = 0; i < values.size(); ++i) {
      set(result, static_cast<int64_t>(i), values[i]);
    }
  }

 private:
  Operation& operation_;
  size_t feature_;
  int64_t features_;
  Boxed n_;
  Boxed epsilon_ = 0;
};

}  // namespace

Status evaluate_batch_norm_training(Operation& operation) {
  const BatchNorm norm(operation);
  const Tensor& x = operation.operand(0);
  std::vector<Boxed> mean = norm.sum([&](size_t, int64_t at) { return x.get(at); });
  for (Boxed& value : mean) {
    value = divide(value, norm.n());
  }
  std::vector<Boxed> variance = norm.sum([&](size_t f, int64_t at) {
    const Boxed centred = subtract(x.get(at), mean[f]);
    return multiply(centred, centred);
  });
  for (Boxed& value : variance) {
    value = divide(value, norm.n());
  }
  norm.normalise(mean, variance);
  norm.set_all(1, mean);
  norm.set_all(2, variance);
  return ok_status();
}

Status evaluate_batch_norm_inference(Operation& operation) {
  const BatchNorm norm(operation);
  norm.normalise(norm.vector(3), norm.vector(4));
  return ok_status();
}

Status evaluate_batch_norm_grad(Operation& operation) {
  const BatchNorm norm(operation);
  const Tensor& x = operation.operand(0);
  const Tensor& dy = operation.operand(4);
  const std::vector<Boxed> scale = norm.vector(1);
  const std::vector<Boxed> mean = norm.vector(2);
  const std::vector<Boxed> r = norm.reciprocal_deviation(norm.vector(3));
  const std::vector<Boxed> sum = norm.sum([&](size_t, int64_t at) { return dy.get(at); });
  const std::vector<Boxed> product = norm.sum(
      [&](size_t f, int64_t at) { return multiply(dy.get(at), subtract(x.get(at), mean[f])); });
  norm.for_each([&](size_t f, int64_t at) {
    const Boxed factor = divide(multiply(scale[f], r[f]), norm.n());
    const Boxed own = subtract(multiply(norm.n(), dy.get(at)), sum[f]);
    const Boxed shared =
        multiply(subtract(x.get(at), mean[f]), multiply(product[f], multiply(r[f], r[f])));
    norm.set(0, at, multiply(factor, subtract(own, shared)));
  });
  std::vector<Boxed> d_scale = product;
  for (size_t f = 0; f < d_scale.size(); ++f) {
    d_scale[f] = multiply(product[f], r[f]);
  }
  norm.set_all(1, d_scale);
  norm.set_all(2, sum);
  return ok_status();
}

}  // namespace onrt::reference

namespace onrt::lowering {
namespace {

using hir::AttributeKey;
using ncx::ScalarOp;

// Operations in f32 of a micro-program.
class Builder {
 public:
  explicit Builder(Micro& micro) : micro_(micro) {}
  Reg input(const Window& window) {
    const Reg reg = micro_.add_input(window);
    return window.dtype == Dtype::kF32 ? reg : op(ScalarOp::kConvert, reg);
  }
  Reg op(ScalarOp op, Reg a, Reg b = {}) { return micro_.add_op({op, Dtype::kF32, {a, b}, 0}); }
  Reg add(Reg a, Reg b) { return op(ScalarOp::kAdd, a, b); }
  Reg subtract(Reg a, Reg b) { return op(ScalarOp::kSubtract, a, b); }
  Reg multiply(Reg a, Reg b) { return op(ScalarOp::kMultiply, a, b); }
  Reg divide(Reg a, Reg b) { return op(ScalarOp::kDivide, a, b); }
  Reg constant(float value) {
    return micro_.add_op({ScalarOp::kConstant, Dtype::kF32, {}, std::bit_cast<uint32_t>(value)});
  }
  Reg rounded(Reg reg, Dtype dtype) {
    return dtype == Dtype::kF32 ? reg : micro_.add_op({ScalarOp::kConvert, dtype, {reg}, 0});
  }

 private:
  Micro& micro_;
};

class BatchNorm {
 public:
  BatchNorm(Lowerer& lowerer, const Node& node, int32_t index)
      : lowerer_(lowerer),
        node_(node),
        index_(index),
        operand_(lowerer.type(node.operands[0])),
        feature_(static_cast<size_t>(node.ints(AttributeKey::kDimensions)[0])),
        features_(operand_.dims[feature_]),
        n_(static_cast<float>(operand_.elements / features_)) {
    std::memcpy(&epsilon_, hir::find(node.attributes, AttributeKey::kEpsilon)->data.data(),
                sizeof epsilon_);
  }

  float n() const { return n_; }
  Dtype dtype() const { return operand_.dtype; }
  const Type& operand() const { return operand_; }
  Window window(size_t operand) { return lowerer_.window(node_.operands[operand]); }

  // One f32 per feature.
  Window new_vector() { return new_vector(Dtype::kF32); }
  // A vector over the operand's dimensions.
  Window spread(const Window& vector) const {
    const int64_t dim[] = {static_cast<int64_t>(feature_)};
    return broadcast(vector, operand_.dims, dim);
  }
  // A window over the operand's dimensions as a reduction sees it: features, then the rest.
  Window ordered(const Window& window) const {
    Dims order{static_cast<int64_t>(feature_)};
    for (size_t d = 0; d < operand_.dims.size(); ++d) {
      if (d != feature_) {
        order.push_back(static_cast<int64_t>(d));
      }
    }
    return permute(window, order);
  }

  // A sum per feature of the values that `values` puts into the prologue.
  template <class Values>
  int32_t add_sums(size_t count, const Values& values) {
    Kernel made;
    made.origin = node_.origin;
    made.kind = KernelKind::kReduce;
    made.dims = vector_dims();
    made.domain = ordered(Window{0, dtype(), 0, Dims(operand_.dims), Dims(operand_.dims)}).dims;
    for (const Reg reg : values(Builder(made.prologue))) {
      made.prologue.outputs.push_back({reg, Window{}});
    }
    for (size_t i = 0; i < count; ++i) {
      made.combiners.push_back(ScalarOp::kAdd);
      made.inits.push_back(lowerer_.constant(Dtype::kF32, 0));
      made.tail.heads.push_back(Dtype::kF32);
    }
    const int32_t number = lowerer_.add_kernel(KernelKind::kReduce, node_);
    lowerer_.kernel(number) = std::move(made);
    return number;
  }
  Micro& tail(int32_t kernel) { return lowerer_.kernel(kernel).tail; }

  // Gives result `result` the values of a register of one value per feature.
  void set_vector(int32_t result, int32_t kernel, Reg reg) {
    const Window made = new_vector(dtype());
    const Reg rounded = Builder(tail(kernel)).rounded(reg, dtype());
    tail(kernel).outputs.push_back({rounded, made});
    lowerer_.set_window({index_, result}, made, kernel);
  }

  int32_t add_elementwise() {
    const int32_t number = lowerer_.add_kernel(KernelKind::kEltwise, node_);
    lowerer_.kernel(number).dims = Dims(operand_.dims);
    return number;
  }
  void set_result(int32_t kernel, Reg reg) {
    const Reg rounded = Builder(tail(kernel)).rounded(reg, dtype());
    lowerer_.set_register({index_, 0}, kernel, rounded);
  }
  Reg reciprocal_deviation(Builder& b, Reg variance) const {
    return b.op(ScalarOp::kRsqrt, b.add(variance, b.constant(epsilon_)));
  }

  void normalise(const Window& mean, const Window& variance) {
    const Window x = window(0);
    const Window scale = window(1);
    const Window offset = window(2);
    const int32_t number = add_elementwise();
    Builder b(tail(number));
    const Reg centred = b.subtract(b.input(x), b.input(spread(mean)));
    const Reg r = reciprocal_deviation(b, b.input(spread(variance)));
    const Reg scaled = b.multiply(b.multiply(centred, r), b.input(spread(scale)));
    set_result(number, b.add(scaled, b.input(spread(offset))));
  }

 private:
  Dims vector_dims() const { return Dims{features_}; }
  Window new_vector(Dtype dtype) {
    const Dims dims = vector_dims();
    return lowerer_.new_buffer({dtype, dims, features_});
  }

  Lowerer& lowerer_;
  const Node& node_;
  int32_t index_;
  const Type& operand_;
  size_t feature_;
  int64_t features_;
  float n_;
  float epsilon_ = 0;
};

}  // namespace

Status lower_batch_norm_training(Lowerer& lowerer, const Node& node, int32_t index) {
  BatchNorm norm(lowerer, node, index);
  const Window x = norm.window(0);
  const auto divide_by_n = [&](int32_t number, int32_t result) {
    Builder b(norm.tail(number));
    const Reg value = b.divide({Reg::List::kHead, 0}, b.constant(norm.n()));
    const Window vector = norm.new_vector();
    norm.tail(number).outputs.push_back({value, vector});
    norm.set_vector(result, number, value);
    return vector;
  };
  const int32_t sum =
      norm.add_sums(1, [&](Builder b) { return std::array{b.input(norm.ordered(x))}; });
  const Window mean = divide_by_n(sum, 1);
  const int32_t squares = norm.add_sums(1, [&](Builder b) {
    const Reg centred =
        b.subtract(b.input(norm.ordered(x)), b.input(norm.ordered(norm.spread(mean))));
    return std::array{b.multiply(centred, centred)};
  });
  const Window variance = divide_by_n(squares, 2);
  norm.normalise(mean, variance);
  return ok_status();
}

Status lower_batch_norm_inference(Lowerer& lowerer, const Node& node, int32_t index) {
  BatchNorm norm(lowerer, node, index);
  const Window mean = norm.window(3);
  norm.normalise(mean, norm.window(4));
  return ok_status();
}

Status lower_batch_norm_grad(Lowerer& lowerer, const Node& node, int32_t index) {
  BatchNorm norm(lowerer, node, index);
  const Window x = norm.window(0);
  const Window scale = norm.window(1);
  const Window mean = norm.window(2);
  const Window variance = norm.window(3);
  const Window dy = norm.window(4);
  const int32_t sums = norm.add_sums(2, [&](Builder b) {
    const Reg d = b.input(norm.ordered(dy));
    const Reg centred =
        b.subtract(b.input(norm.ordered(x)), b.input(norm.ordered(norm.spread(mean))));
    return std::array{d, b.multiply(d, centred)};
  });
  const Window sum = norm.new_vector();
  const Window product = norm.new_vector();
  const Reg heads[] = {{Reg::List::kHead, 0}, {Reg::List::kHead, 1}};
  {
    Builder b(norm.tail(sums));
    const Reg r = norm.reciprocal_deviation(b, b.input(variance));
    const Reg d_scale = b.multiply(heads[1], r);
    norm.tail(sums).outputs.push_back({heads[0], sum});
    norm.tail(sums).outputs.push_back({heads[1], product});
    norm.set_vector(1, sums, d_scale);
    norm.set_vector(2, sums, heads[0]);
  }
  const int32_t number = norm.add_elementwise();
  Builder b(norm.tail(number));
  const Reg r = norm.reciprocal_deviation(b, b.input(norm.spread(variance)));
  const Reg n = b.constant(norm.n());
  const Reg factor = b.divide(b.multiply(b.input(norm.spread(scale)), r), n);
  const Reg own = b.subtract(b.multiply(n, b.input(dy)), b.input(norm.spread(sum)));
  const Reg shared = b.multiply(b.subtract(b.input(x), b.input(norm.spread(mean))),
                                b.multiply(b.input(norm.spread(product)), b.multiply(r, r)));
  norm.set_result(number, b.multiply(factor, b.subtract(own, shared)));
  return ok_status();
}

}  // namespace onrt::lowering
