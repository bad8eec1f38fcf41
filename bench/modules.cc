// SPDX-License-Identifier: Apache-2.0
#include "bench/modules.h"

#include <initializer_list>
#include <vector>

namespace onrt::bench {
namespace {

constexpr int64_t kWidth = 32;
constexpr int64_t kLargeWidth = 1024;
// A module has room for so many parameters that a layer's weights can be of their own.
constexpr int64_t kMostLayerWeights = 100;
constexpr int64_t kMostUpdates = 2500;

// Appends to one graph; the first failure stops all further operations.
class Builder {
 public:
  explicit Builder(nrtcc_graph_t* graph) : graph_(graph) {}

  nrtcc_value_t parameter(std::vector<int64_t> dims) {
    const int64_t number = parameters_++;
    return op("parameter", {}, NRTCC_F32, std::move(dims),
              {{NRTCC_ATTR_PARAMETER_NUMBER, 1, &number, nullptr, 0}});
  }
  nrtcc_value_t constant(float value) {
    return op("constant", {}, NRTCC_F32, {},
              {{NRTCC_ATTR_LITERAL, 0, nullptr, &value, sizeof value}});
  }
  nrtcc_value_t broadcast(nrtcc_value_t value, std::vector<int64_t> dims,
                          std::vector<int64_t> mapping) {
    return op("broadcast", {value}, NRTCC_F32, std::move(dims),
              {{NRTCC_ATTR_DIMENSIONS, static_cast<int32_t>(mapping.size()), mapping.data(),
                nullptr, 0}});
  }
  // Two matrices of these dims; the sides are contracted over one dimension.
  nrtcc_value_t dot(nrtcc_value_t lhs, int64_t lhs_dim, nrtcc_value_t rhs, int64_t rhs_dim,
                    const std::vector<int64_t>& dims) {
    return op("dot", {lhs, rhs}, NRTCC_F32, dims,
              {{NRTCC_ATTR_LHS_CONTRACTING, 1, &lhs_dim, nullptr, 0},
               {NRTCC_ATTR_RHS_CONTRACTING, 1, &rhs_dim, nullptr, 0}});
  }
  nrtcc_value_t greater(nrtcc_value_t a, nrtcc_value_t b, const std::vector<int64_t>& dims) {
    return op("compare", {a, b}, NRTCC_PRED, dims, {{NRTCC_ATTR_COMPARISON, 0, nullptr, "GT", 2}});
  }
  nrtcc_value_t op(const char* opcode, std::vector<nrtcc_value_t> operands, nrtcc_dtype_t dtype,
                   std::vector<int64_t> dims, std::vector<nrtcc_attr_t> attributes = {}) {
    const nrtcc_shape_t shape{dtype, static_cast<int32_t>(dims.size()), dims.data(), nullptr};
    nrtcc_value_t value = -1;
    ++count_;
    // A failure leaves -1, which every user of the value and set_root() refuse.
    (void)nrtcc_op(graph_, 0, nrtcc_opcode(opcode), operands.data(),
                   static_cast<int32_t>(operands.size()), &shape, attributes.data(),
                   static_cast<int32_t>(attributes.size()), &value);
    return value;
  }
  int64_t count() const { return count_; }

  void finish(const std::vector<nrtcc_value_t>& results, const std::vector<int64_t>& dims) {
    const nrtcc_shape_t element{NRTCC_F32, static_cast<int32_t>(dims.size()), dims.data(), nullptr};
    const std::vector<nrtcc_shape_t> elements(results.size(), element);
    const nrtcc_shape_t shape{NRTCC_TUPLE, static_cast<int32_t>(results.size()), nullptr,
                              elements.data()};
    nrtcc_value_t root = -1;
    (void)nrtcc_op(graph_, 0, nrtcc_opcode("tuple"), results.data(),
                   static_cast<int32_t>(results.size()), &shape, nullptr, 0, &root);
    (void)nrtcc_set_root(graph_, 0, root);
  }

 private:
  nrtcc_graph_t* graph_;
  int64_t parameters_ = 0;
  int64_t count_ = 0;
};

void add_layers(nrtcc_graph_t* graph, int64_t instructions, int64_t width) {
  Builder builder(graph);
  const std::vector<int64_t> square = {width, width};
  const int64_t layers = instructions / 10;
  const int64_t own = layers < kMostLayerWeights ? layers : kMostLayerWeights;
  std::vector<nrtcc_value_t> weights;
  std::vector<nrtcc_value_t> biases;
  for (int64_t i = 0; i < own; ++i) {
    weights.push_back(builder.parameter(square));
    biases.push_back(builder.parameter({width}));
  }
  const nrtcc_value_t zero = builder.broadcast(builder.constant(0), square, {});
  std::vector<nrtcc_value_t> inputs;
  std::vector<nrtcc_value_t> sums;
  nrtcc_value_t x = builder.parameter(square);
  for (int64_t i = 0; i < layers; ++i) {
    const auto w = static_cast<size_t>(i % own);
    inputs.push_back(x);
    const nrtcc_value_t product = builder.dot(x, 1, weights[w], 0, square);
    const nrtcc_value_t bias = builder.broadcast(biases[w], square, {1});
    sums.push_back(builder.op("add", {product, bias}, NRTCC_F32, square));
    x = builder.op("maximum", {sums.back(), zero}, NRTCC_F32, square);
  }
  std::vector<nrtcc_value_t> gradients(static_cast<size_t>(own), -1);
  for (int64_t i = layers; i-- > 0;) {
    const auto w = static_cast<size_t>(i % own);
    const auto k = static_cast<size_t>(i);
    const nrtcc_value_t positive = builder.greater(sums[k], zero, square);
    const nrtcc_value_t through = builder.op("select", {positive, x, zero}, NRTCC_F32, square);
    const nrtcc_value_t gradient = builder.dot(inputs[k], 0, through, 0, square);
    gradients[w] = gradients[w] < 0
                       ? gradient
                       : builder.op("add", {gradients[w], gradient}, NRTCC_F32, square);
    x = builder.dot(through, 1, weights[w], 1, square);
  }
  gradients.push_back(x);
  builder.finish(gradients, square);
}

}  // namespace

void fill_chain(nrtcc_graph_t* graph, int64_t instructions) {
  Builder builder(graph);
  const std::vector<int64_t> dims = {kWidth};
  const nrtcc_value_t a = builder.parameter(dims);
  nrtcc_value_t x = builder.parameter(dims);
  while (builder.count() < instructions) {
    x = builder.op("multiply", {x, a}, NRTCC_F32, dims);
    x = builder.op("tanh", {x}, NRTCC_F32, dims);
    x = builder.op("add", {x, a}, NRTCC_F32, dims);
    x = builder.op("abs", {x}, NRTCC_F32, dims);
  }
  builder.finish({x}, dims);
}

void fill_tree(nrtcc_graph_t* graph, int64_t instructions) {
  Builder builder(graph);
  const std::vector<int64_t> dims = {kWidth};
  const nrtcc_value_t a = builder.parameter(dims);
  std::vector<nrtcc_value_t> level;
  for (int64_t i = 0; i < instructions / 4; ++i) {  // 3 for a leaf, 1 to add it
    const auto factor = builder.constant(static_cast<float>(i + 2));
    level.push_back(
        builder.op("multiply", {a, builder.broadcast(factor, dims, {})}, NRTCC_F32, dims));
  }
  while (level.size() > 1) {
    std::vector<nrtcc_value_t> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) {
      next.push_back(builder.op("add", {level[i], level[i + 1]}, NRTCC_F32, dims));
    }
    if (level.size() % 2 == 1) {
      next.push_back(level.back());
    }
    level = std::move(next);
  }
  builder.finish(level, dims);
}

void fill_layers(nrtcc_graph_t* graph, int64_t instructions) {
  add_layers(graph, instructions, kWidth);
}

void fill_large_layers(nrtcc_graph_t* graph, int64_t instructions) {
  add_layers(graph, instructions, kLargeWidth);
}

void fill_updates(nrtcc_graph_t* graph, int64_t instructions) {
  Builder builder(graph);
  const std::vector<int64_t> dims = {kWidth};
  const nrtcc_value_t gradient = builder.parameter(dims);
  const nrtcc_value_t decay = builder.broadcast(builder.constant(0.9F), dims, {});
  std::vector<nrtcc_value_t> results;
  for (int64_t i = 0; builder.count() < instructions; ++i) {
    // A module has so many inputs and outputs; then the last weights change again.
    const bool fresh = i < kMostUpdates;
    const auto before = [&](size_t k) {
      return fresh ? builder.parameter(dims)
                   : results[static_cast<size_t>(i % kMostUpdates) * 3 + k];
    };
    const nrtcc_value_t weight = before(0);
    const nrtcc_value_t first = before(1);
    const nrtcc_value_t second = before(2);
    const auto next = [&](nrtcc_value_t moment, nrtcc_value_t with) {
      const nrtcc_value_t kept = builder.op("multiply", {moment, decay}, NRTCC_F32, dims);
      return builder.op("add", {kept, with}, NRTCC_F32, dims);
    };
    const nrtcc_value_t scaled = builder.op("multiply", {gradient, weight}, NRTCC_F32, dims);
    const nrtcc_value_t mean = next(first, scaled);
    const nrtcc_value_t square = builder.op("multiply", {scaled, scaled}, NRTCC_F32, dims);
    const nrtcc_value_t variance = next(second, square);
    const nrtcc_value_t root = builder.op("rsqrt", {variance}, NRTCC_F32, dims);
    const nrtcc_value_t step = builder.op("multiply", {mean, root}, NRTCC_F32, dims);
    const nrtcc_value_t made[] = {builder.op("subtract", {weight, step}, NRTCC_F32, dims), mean,
                                  variance};
    for (size_t k = 0; k < 3; ++k) {
      if (fresh) {
        (void)nrtcc_set_alias(graph, static_cast<int32_t>(results.size()),
                              static_cast<int32_t>(results.size()) + 1);
        results.push_back(made[k]);
      } else {
        results[static_cast<size_t>(i % kMostUpdates) * 3 + k] = made[k];
      }
    }
  }
  builder.finish(results, dims);
}

nrtcc_status_t make_module(const Shape& shape, int64_t instructions, nrtcc_graph_t** graph) {
  if (const nrtcc_status_t status = nrtcc_graph_create(shape.name, graph); status != NRTCC_OK) {
    return status;
  }
  shape.fill(*graph, instructions);
  return NRTCC_OK;
}

}  // namespace onrt::bench
