// SPDX-License-Identifier: Apache-2.0
// Makes random graphs (random_graph.h), operation after operation on values that are there: what
// all of them need, and one function for each kind of operation. Those are in
// random_elementwise.cc, random_folds.cc, random_products.cc, random_indexed.cc and
// random_control.cc. The order of the draws is part of what a seed means.
#pragma once

#include <memory>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/testing/random_graph.h"

namespace onrt::testing {

using hir::Attribute;
using hir::AttributeKey;
using hir::Opcode;
using hir::ShapeId;
using hir::ValueId;
using Ints = std::vector<int64_t>;

inline constexpr int64_t kMostElements = 4000;
inline constexpr hir::ComputationId kHere = -1;  // the computation that is being filled
inline constexpr Dtype kTypes[] = {Dtype::kF32, Dtype::kF32, Dtype::kF32,  Dtype::kBF16,
                                   Dtype::kF16, Dtype::kS32, Dtype::kS32,  Dtype::kS64,
                                   Dtype::kU8,  Dtype::kU32, Dtype::kPred, Dtype::kS8};

class Generator {
 public:
  Generator(uint64_t seed, const RandomOptions& options)
      : random_(seed), options_(options), graph_(std::make_unique<hir::Graph>("random")) {}
  RandomCase run();

 private:
  int between(int low, int high);
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class List>
  auto pick(const List& list) {
    return list[random_() % std::size(list)];
  }
  const hir::Shape& shape(ValueId value) const { return graph_->shape_of(value); }
  Ints dims(ValueId value) const { return {shape(value).dims.begin(), shape(value).dims.end()}; }
  Dtype dtype(ValueId value) const { return shape(value).dtype; }
  Ints random_dims();
  Bytes random_data(Dtype type, int64_t count);
  ValueId add(Opcode opcode, const std::vector<ValueId>& operands, ShapeId shape_id,
              const std::vector<Attribute>& attributes = {},
              hir::ComputationId computation = kHere);
  ValueId add(Opcode opcode, const std::vector<ValueId>& operands, Dtype type, const Ints& result,
              const std::vector<Attribute>& attributes = {},
              hir::ComputationId computation = kHere);
  void add_parameter(int64_t number, hir::ComputationId computation = hir::kEntry,
                     Dtype type = Dtype::kF32);
  ValueId constant(Dtype type, const Ints& wanted);
  // A value of exactly these dims and this type, made from what is there.
  ValueId like(Dtype type, const Ints& wanted);
  ValueId converted(ValueId value, Dtype type);
  // Opcodes of elementwise rows that take `count` operands of this type.
  std::vector<Opcode> elementwise(Dtype type, int count);
  void add_operation();
  void add_unary(ValueId value);
  void add_binary(ValueId value);
  void add_select(ValueId value);
  void add_convert(ValueId value);
  void add_broadcast(ValueId value);
  void add_reshape(ValueId value);
  void add_transpose(ValueId value);
  void add_slice(ValueId value);
  void add_reverse(ValueId value);
  void add_pad(ValueId value);
  void add_concatenate(ValueId value);
  void add_iota(ValueId value);
  // A computation of one binary operation on two scalars.
  int64_t binary_computation(Opcode opcode, Dtype type);
  Opcode random_combiner(Dtype type);
  // Where a fold begins.
  ValueId initial(Opcode combiner, Dtype type);
  void add_reduce(ValueId value);
  // argmax: pairs of value and position, a general combiner with two results.
  int64_t argmax_computation(Dtype type);
  // The elements of a tuple of arrays; the tuple itself is no operand for the others.
  void take_apart(ValueId tuple);
  void add_arg_reduce(ValueId value);
  void add_ordered(ValueId value);
  void add_product(ValueId value);
  Ints shuffled(size_t count);
  // A window of seven numbers for an axis.
  Ints random_axis();
  void add_convolution(ValueId value);
  void add_batch_norm(ValueId value);
  void add_cholesky(ValueId value);
  void add_triangular_solve(ValueId value);
  ValueId compare(std::string_view direction, ValueId a, ValueId b, hir::ComputationId id,
                  bool total = false);
  ValueId scalar_constant(Dtype type, float value, hir::ComputationId id);
  // An element as jnp.sort compares it: NaNs alike, zeros alike. (The sign of a NaN is no part of a
  // result, so the total order must not see it.)
  ValueId canonical(ValueId x, hir::ComputationId id);
  int64_t sort_computation(Dtype first, Dtype second);
  void add_sort(ValueId value);
  void add_topk(ValueId value);
  // Attribute Window for these dims, and the numbers of windows; false if there are too many.
  bool random_window(const Ints& from, Ints& window, Ints& windows);
  void add_reduce_window(ValueId value);
  void add_select_and_scatter(ValueId value);
  void add_dot(ValueId value);
  void add_indexed(ValueId value);
  std::vector<ValueId> with_starts(std::vector<ValueId> operands, size_t count);
  Ints window_of(ValueId value);
  void add_dynamic_slice(ValueId value);
  void add_dynamic_update_slice(ValueId value);
  // Rows of `value` along one dimension, as an embedding lookup does.
  void add_gather(ValueId value);
  void add_scatter(ValueId value);
  // A new computation of one parameter, which `fill` gives operations and a root.
  template <class Fill>
  int64_t nested(const char* name, ShapeId parameter, Fill fill) {
    const auto id = *graph_->add_computation(name);
    const hir::ComputationId outer = std::exchange(here_, id);
    std::vector<ValueId> outer_values = std::exchange(values_, {});
    ++depth_;
    const int64_t zero = 0;
    const ValueId value =
        add(Opcode::kParameter, {}, parameter, {{AttributeKey::kParameterNumber, {&zero, 1}, {}}});
    if (!shape(value).is_array()) {
      values_.pop_back();
    }
    (void)graph_->set_root(id, fill(value));
    --depth_;
    values_ = std::move(outer_values);
    here_ = outer;
    return id;
  }
  ValueId element(ValueId tuple, int64_t i);
  // A tuple is no operand for other operations.
  ValueId tuple(const std::vector<ValueId>& elements);
  // Values of the current computation as ((first), the others...).
  ValueId state_of(const std::vector<ValueId>& values);
  std::vector<ValueId> values_of(ValueId state);
  ValueId number(int32_t value);
  // What carried value `i` becomes: itself, another one, or what the body has made.
  ValueId next_value(const std::vector<ValueId>& carried, size_t i);
  void add_loop();
  void add_conditional();
  void finish();
  std::mt19937_64 random_;
  RandomOptions options_;
  std::unique_ptr<hir::Graph> graph_;
  hir::ComputationId here_ = hir::kEntry;
  int depth_ = 0;                // of here_
  std::vector<ValueId> values_;  // of here_
  std::vector<Bytes> inputs_;
};

}  // namespace onrt::testing
