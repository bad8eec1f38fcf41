// SPDX-License-Identifier: Apache-2.0
#include "compiler/testing/random_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>

#include "compiler/hir/scalar.h"
#include "compiler/ops/convolution.h"
#include "compiler/reference/interpreter.h"

namespace onrt::testing {
namespace {

using hir::Attribute;
using hir::AttributeKey;
using hir::Opcode;
using hir::ShapeId;
using hir::ValueId;
using Ints = std::vector<int64_t>;

constexpr int64_t kMostElements = 4000;
constexpr int kDeepest = 3;               // loops and conditionals inside each other
constexpr hir::ComputationId kHere = -1;  // the computation that is being filled
constexpr Dtype kTypes[] = {Dtype::kF32, Dtype::kF32, Dtype::kF32,  Dtype::kBF16,
                            Dtype::kF16, Dtype::kS32, Dtype::kS32,  Dtype::kS64,
                            Dtype::kU8,  Dtype::kU32, Dtype::kPred, Dtype::kS8};

// Operations on floats that IEEE 754 gives one result.
bool is_exact(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAbs:
    case Opcode::kAdd:
    case Opcode::kCeil:
    case Opcode::kDivide:
    case Opcode::kFloor:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kMultiply:
    case Opcode::kNegate:
    case Opcode::kRoundNearestAfz:
    case Opcode::kRoundNearestEven:
    case Opcode::kSign:
    case Opcode::kSqrt:
    case Opcode::kSubtract:
      return true;
    default:
      return false;
  }
}

bool is_unsigned(Dtype type) {
  return type == Dtype::kU8 || type == Dtype::kU16 || type == Dtype::kU32 || type == Dtype::kU64;
}

// False for what StableHLO lacks.
bool is_portable(Opcode opcode, Dtype type) {
  switch (opcode) {
    case Opcode::kAbs:
    case Opcode::kSign:
      return !is_unsigned(type);
    case Opcode::kAcos:
    case Opcode::kAcosh:
    case Opcode::kAsin:
    case Opcode::kAsinh:
    case Opcode::kAtan:
    case Opcode::kAtanh:
    case Opcode::kCosh:
    case Opcode::kErf:
    case Opcode::kMulhi:
    case Opcode::kSinh:
      return false;
    default:
      return true;
  }
}

class Generator {
 public:
  Generator(uint64_t seed, const RandomOptions& options)
      : random_(seed), options_(options), graph_(std::make_unique<hir::Graph>("random")) {}

  RandomCase run() {
    const int parameters = between(1, 4);
    for (int i = 0; i < parameters; ++i) {
      add_parameter(i);
    }
    for (int i = 0; i < options_.operations; ++i) {
      add_operation();
    }
    finish();
    return {std::move(graph_), std::move(inputs_)};
  }

 private:
  int between(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class List>
  auto pick(const List& list) {
    return list[random_() % std::size(list)];
  }

  const hir::Shape& shape(ValueId value) const { return graph_->shape_of(value); }
  Ints dims(ValueId value) const { return {shape(value).dims.begin(), shape(value).dims.end()}; }
  Dtype dtype(ValueId value) const { return shape(value).dtype; }

  Ints random_dims() {
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 33};
    Ints made;
    int64_t count = 1;
    const int rank = between(0, 4);
    for (int i = 0; i < rank; ++i) {
      const int64_t size = chance(2) ? 0 : pick(kSizes);
      if (count * size <= kMostElements / 4) {
        made.push_back(size);
        count *= std::max<int64_t>(size, 1);
      }
    }
    return made;
  }

  Bytes random_data(Dtype type, int64_t count) {
    static constexpr float kSpecial[] = {0.0F,  -0.0F, 1.0F,     -1.0F,     1e-40F,
                                         3e38F, 0.5F,  INFINITY, -INFINITY, NAN};
    Bytes data(static_cast<size_t>(count) * dtype_bytes(type));
    std::normal_distribution<float> normal(0.0F, 2.0F);
    for (int64_t i = 0; i < count; ++i) {
      std::byte* at = data.data() + static_cast<size_t>(i) * dtype_bytes(type);
      if (is_floating(type)) {
        float value = chance(2) ? pick(kSpecial) : normal(random_);
        if (options_.portable && std::fpclassify(value) == FP_SUBNORMAL) {
          value = 0;
        }
        const ncx::Boxed from = std::bit_cast<uint32_t>(value);
        ncx::store_boxed(
            type, ncx::evaluate(ncx::ScalarOp::kConvert, type, Dtype::kF32, &from, 0, 0), at);
      } else {
        const uint64_t value = chance(10) ? random_() : random_() % 11 - 3;
        ncx::store_boxed(type, ncx::box_bits(type, type == Dtype::kPred ? value & 1 : value), at);
      }
    }
    return data;
  }

  ValueId add(Opcode opcode, const std::vector<ValueId>& operands, ShapeId shape_id,
              const std::vector<Attribute>& attributes = {},
              hir::ComputationId computation = kHere) {
    computation = computation == kHere ? here_ : computation;
    const Result<ValueId> made =
        graph_->append({computation, opcode, operands, shape_id, attributes});
    if (!made.ok()) {
      std::fprintf(stderr, "random graph: %s\n", std::string(made.status().message()).c_str());
      std::abort();
    }
    if (computation == here_) {
      values_.push_back(*made);
    }
    return *made;
  }
  ValueId add(Opcode opcode, const std::vector<ValueId>& operands, Dtype type, const Ints& result,
              const std::vector<Attribute>& attributes = {},
              hir::ComputationId computation = kHere) {
    return add(opcode, operands, *graph_->shapes().array(type, result), attributes, computation);
  }

  void add_parameter(int64_t number, hir::ComputationId computation = hir::kEntry,
                     Dtype type = Dtype::kF32) {
    const Ints wanted = computation == hir::kEntry ? random_dims() : Ints{};
    type = computation == hir::kEntry ? pick(kTypes) : type;
    add(Opcode::kParameter, {}, type, wanted, {{AttributeKey::kParameterNumber, {&number, 1}, {}}},
        computation);
    if (computation == hir::kEntry) {
      inputs_.push_back(random_data(type, shape(values_.back()).element_count));
    }
  }

  ValueId constant(Dtype type, const Ints& wanted) {
    int64_t count = 1;
    for (const int64_t dim : wanted) {
      count *= dim;
    }
    const Bytes data = random_data(type, count);
    return add(Opcode::kConstant, {}, type, wanted, {{AttributeKey::kLiteral, {}, data}});
  }

  // A value of exactly these dims and this type, made from what is there.
  ValueId like(Dtype type, const Ints& wanted) {
    std::vector<ValueId> same_dims;
    for (const ValueId value : values_) {
      if (dims(value) == wanted) {
        same_dims.push_back(value);
      }
    }
    if (!same_dims.empty() && chance(80)) {
      return converted(pick(same_dims), type);
    }
    const Ints none;
    return chance(50) ? constant(type, wanted)
                      : add(Opcode::kBroadcast, {constant(type, {})}, type, wanted,
                            {{AttributeKey::kDimensions, none, {}}});
  }

  ValueId converted(ValueId value, Dtype type) {
    return dtype(value) == type ? value : add(Opcode::kConvert, {value}, type, dims(value));
  }

  // Opcodes of elementwise rows that take `count` operands of this type.
  std::vector<Opcode> elementwise(Dtype type, int count) {
    std::vector<Opcode> made;
    std::array<Dtype, 3> types;
    types.fill(type);
    for (int i = 0; i < hir::kOpcodes; ++i) {
      const auto& info = hir::opcode_info(static_cast<Opcode>(i));
      if (info.elementwise && info.least_operands == count &&
          (!options_.exact || !is_floating(type) || is_exact(static_cast<Opcode>(i))) &&
          (!options_.portable || is_portable(static_cast<Opcode>(i), type)) &&
          ncx::scalar_op_typed(info.scalar, {types.data(), static_cast<size_t>(count)}, type)) {
        made.push_back(static_cast<Opcode>(i));
      }
    }
    return made;
  }

  void add_operation() {
    const ValueId value = chance(60) ? values_.back() : pick(values_);
    if (options_.control && depth_ < kDeepest && chance(depth_ == 0 ? 25 : 15)) {
      return chance(60) ? add_loop() : add_conditional();
    }
    if (options_.ordered && chance(25) && !dims(value).empty()) {
      return add_ordered(value);
    }
    switch (between(0, 19)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return add_unary(value);
      case 4:
      case 5:
      case 6:
      case 7:
        return add_binary(value);
      case 8:
        return add_select(value);
      case 9:
        return add_convert(value);
      case 10:
        return add_broadcast(value);
      case 11:
        return add_reshape(value);
      case 12:
        return add_transpose(value);
      case 13:
        return chance(50) ? add_slice(value) : add_reverse(value);
      case 14:
        return chance(50) ? add_pad(value) : add_concatenate(value);
      case 15:
        return add_iota(value);
      case 16:
      case 17:
        return options_.products ? (chance(70) ? add_reduce(value) : add_arg_reduce(value))
                                 : add_unary(value);
      case 18:
        return options_.products ? add_product(value) : add_binary(value);
      default:
        return options_.indexed ? add_indexed(value) : add_binary(value);
    }
  }

  void add_unary(ValueId value) {
    const auto opcodes = elementwise(dtype(value), 1);
    if (opcodes.empty()) {
      add(Opcode::kConvert, {value}, Dtype::kF32, dims(value));
    } else {
      add(pick(opcodes), {value}, dtype(value), dims(value));
    }
  }

  void add_binary(ValueId value) {
    const ValueId other = like(dtype(value), dims(value));
    const bool swap = chance(50);
    const std::vector<ValueId> operands = {swap ? other : value, swap ? value : other};
    if (chance(15)) {
      static constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
      const std::string_view direction = pick(kDirections);
      std::vector<Attribute> attributes = {
          {AttributeKey::kComparison, {}, std::as_bytes(std::span(direction))}};
      if (chance(20)) {
        attributes.push_back({AttributeKey::kTotalOrder, {}, {}});
      }
      add(Opcode::kCompare, operands, Dtype::kPred, dims(value), attributes);
      return;
    }
    add(pick(elementwise(dtype(value), 2)), operands, dtype(value), dims(value));
  }

  void add_select(ValueId value) {
    const bool scalar = chance(20);
    if (dtype(value) != Dtype::kPred && chance(30)) {
      const ValueId low = like(dtype(value), scalar ? Ints{} : dims(value));
      const ValueId high = like(dtype(value), scalar ? Ints{} : dims(value));
      add(Opcode::kClamp, {low, value, high}, dtype(value), dims(value));
      return;
    }
    const ValueId which = like(Dtype::kPred, scalar ? Ints{} : dims(value));
    const ValueId other = like(dtype(value), dims(value));
    add(Opcode::kSelect, {which, value, other}, dtype(value), dims(value));
  }

  void add_convert(ValueId value) {
    if (is_floating(dtype(value)) && chance(30)) {
      const Ints bits = {between(2, 8), between(1, 23)};
      add(Opcode::kReducePrecision, {value}, dtype(value), dims(value),
          {{AttributeKey::kExponentMantissa, bits, {}}});
      return;
    }
    if (is_floating(dtype(value)) && chance(20)) {
      add(Opcode::kIsFinite, {value}, Dtype::kPred, dims(value));
      return;
    }
    const Dtype type = pick(kTypes);
    if (chance(40) && type != Dtype::kPred && dtype(value) != Dtype::kPred &&
        dtype_bytes(type) <= dtype_bytes(dtype(value)) && dims(value).size() < 5) {
      Ints wanted = dims(value);
      if (dtype_bytes(type) < dtype_bytes(dtype(value))) {
        wanted.push_back(dtype_bytes(dtype(value)) / dtype_bytes(type));
      }
      add(Opcode::kBitcastConvert, {value}, type, wanted);
      return;
    }
    add(Opcode::kConvert, {value}, type, dims(value));
  }

  void add_broadcast(ValueId value) {
    Ints wanted = dims(value);
    Ints mapping;
    for (size_t i = 0; i < wanted.size(); ++i) {
      mapping.push_back(static_cast<int64_t>(i));
    }
    const int64_t size = between(1, 4);
    if (shape(value).element_count * size > kMostElements || wanted.size() > 5) {
      return add_unary(value);
    }
    const int at = between(0, static_cast<int>(wanted.size()));
    wanted.insert(wanted.begin() + at, size);
    for (int64_t& dim : mapping) {
      dim += dim >= at ? 1 : 0;
    }
    add(Opcode::kBroadcast, {value}, dtype(value), wanted,
        {{AttributeKey::kDimensions, mapping, {}}});
  }

  void add_reshape(ValueId value) {
    int64_t left = shape(value).element_count;
    Ints wanted;
    for (const int64_t factor : {2, 3, 5, 2}) {
      if (left % factor == 0 && chance(60)) {
        wanted.push_back(factor);
        left /= factor;
      }
    }
    wanted.insert(wanted.begin() + between(0, static_cast<int>(wanted.size())), left);
    if (chance(20)) {
      wanted.insert(wanted.begin() + between(0, static_cast<int>(wanted.size())), 1);
    }
    add(Opcode::kReshape, {value}, dtype(value), wanted);
  }

  void add_transpose(ValueId value) {
    Ints order;
    for (size_t i = 0; i < dims(value).size(); ++i) {
      order.push_back(static_cast<int64_t>(i));
    }
    std::shuffle(order.begin(), order.end(), random_);
    Ints wanted;
    for (const int64_t dim : order) {
      wanted.push_back(dims(value)[static_cast<size_t>(dim)]);
    }
    add(Opcode::kTranspose, {value}, dtype(value), wanted,
        {{AttributeKey::kDimensions, order, {}}});
  }

  void add_slice(ValueId value) {
    Ints slice;
    Ints wanted;
    for (const int64_t dim : dims(value)) {
      const int64_t start = chance(50) ? 0 : between(0, static_cast<int>(dim));
      const int64_t limit =
          chance(50) ? dim : between(static_cast<int>(start), static_cast<int>(dim));
      const int64_t stride = between(1, 3);
      slice.insert(slice.end(), {start, limit, stride});
      wanted.push_back((limit - start + stride - 1) / stride);
    }
    add(Opcode::kSlice, {value}, dtype(value), wanted, {{AttributeKey::kSlice, slice, {}}});
  }

  void add_reverse(ValueId value) {
    Ints reversed;
    for (size_t i = 0; i < dims(value).size(); ++i) {
      if (chance(50)) {
        reversed.push_back(static_cast<int64_t>(i));
      }
    }
    add(Opcode::kReverse, {value}, dtype(value), dims(value),
        {{AttributeKey::kDimensions, reversed, {}}});
  }

  void add_pad(ValueId value) {
    Ints padding;
    Ints wanted;
    int64_t count = 1;
    for (const int64_t dim : dims(value)) {
      const int64_t interior = chance(70) ? 0 : between(1, 2);
      const int64_t inside = std::max<int64_t>(dim - 1, 0) * interior + dim;
      const int64_t low = between(-1, 2);
      const int64_t high = std::max<int64_t>(between(-2, 2), -(inside + low));
      padding.insert(padding.end(), {low, high, interior});
      wanted.push_back(inside + low + high);
      count *= wanted.back();
      if (wanted.back() < 0) {
        return add_unary(value);
      }
    }
    if (count > kMostElements) {
      return add_unary(value);
    }
    const ValueId fill = like(dtype(value), {});
    add(Opcode::kPad, {value, fill}, dtype(value), wanted, {{AttributeKey::kPadding, padding, {}}});
  }

  void add_concatenate(ValueId value) {
    if (dims(value).empty() || shape(value).element_count * 3 > kMostElements) {
      return add_unary(value);
    }
    const Ints axis = {between(0, static_cast<int>(dims(value).size()) - 1)};
    const ValueId other = like(dtype(value), dims(value));
    Ints wanted = dims(value);
    wanted[static_cast<size_t>(axis[0])] *= 3;
    add(Opcode::kConcatenate, {value, other, value}, dtype(value), wanted,
        {{AttributeKey::kDimensions, axis, {}}});
  }

  void add_iota(ValueId value) {
    const Dtype type = dtype(value) == Dtype::kPred ? Dtype::kS32 : dtype(value);
    if (dims(value).empty()) {
      return add_unary(value);
    }
    const Ints dim = {between(0, static_cast<int>(dims(value).size()) - 1)};
    add(Opcode::kIota, {}, type, dims(value), {{AttributeKey::kDimensions, dim, {}}});
  }

  // A computation of one binary operation on two scalars.
  int64_t binary_computation(Opcode opcode, Dtype type) {
    const auto id = *graph_->add_computation("combine");
    add_parameter(0, id, type);
    add_parameter(1, id, type);
    const ValueId a = graph_->computation(id).parameters[0];
    const ValueId b = graph_->computation(id).parameters[1];
    const ValueId root = add(opcode, {a, b}, type, {}, {}, id);
    (void)graph_->set_root(id, root);
    return id;
  }

  Opcode random_combiner(Dtype type) {
    std::vector<Opcode> fitting;
    for (const Opcode opcode : elementwise(type, 2)) {
      if (ncx::is_combiner(hir::opcode_info(opcode).scalar, type)) {
        fitting.push_back(opcode);
      }
    }
    if (!options_.portable && chance(10)) {  // a general combiner
      return pick(elementwise(type, 2));
    }
    return pick(fitting);
  }

  // Where a fold begins.
  ValueId initial(Opcode combiner, Dtype type) {
    if (!options_.portable) {
      return like(type, {});
    }
    Bytes data(dtype_bytes(type));
    ncx::store_boxed(type, ncx::combiner_identity(hir::opcode_info(combiner).scalar, type),
                     data.data());
    return add(Opcode::kConstant, {}, type, {}, {{AttributeKey::kLiteral, {}, data}});
  }

  void add_reduce(ValueId value) {
    Ints reduced;
    Ints wanted;
    for (size_t i = 0; i < dims(value).size(); ++i) {
      if (chance(60)) {
        reduced.push_back(static_cast<int64_t>(i));
      } else {
        wanted.push_back(dims(value)[i]);
      }
    }
    const Opcode combiner = random_combiner(dtype(value));
    const Ints callee = {binary_computation(combiner, dtype(value))};
    const ValueId init = initial(combiner, dtype(value));
    add(Opcode::kReduce, {value, init}, dtype(value), wanted,
        {{AttributeKey::kDimensions, reduced, {}}, {AttributeKey::kCalled, callee, {}}});
  }

  // argmax: pairs of value and position, a general combiner with two results.
  int64_t argmax_computation(Dtype type) {
    const auto id = *graph_->add_computation("argmax");
    for (int i = 0; i < 4; ++i) {
      add_parameter(i, id, i % 2 == 0 ? type : Dtype::kS32);
    }
    const auto p = graph_->computation(id).parameters;
    const std::string_view ge = "GE";
    const ValueId first = add(Opcode::kCompare, {p[0], p[2]}, Dtype::kPred, {},
                              {{AttributeKey::kComparison, {}, std::as_bytes(std::span(ge))}}, id);
    const ValueId best = add(Opcode::kSelect, {first, p[0], p[2]}, type, {}, {}, id);
    ValueId which = first;
    if (options_.portable) {  // of equal elements the first: then no order matters
      const ValueId equal = compare("EQ", p[0], p[2], id);
      const ValueId before = compare("LT", p[1], p[3], id);
      which = add(Opcode::kSelect, {equal, before, first}, Dtype::kPred, {}, {}, id);
    }
    const ValueId where = add(Opcode::kSelect, {which, p[1], p[3]}, Dtype::kS32, {}, {}, id);
    const std::array<ShapeId, 2> scalars = {(*graph_)[best].shape, (*graph_)[where].shape};
    (void)graph_->set_root(
        id, add(Opcode::kTuple, {best, where}, *graph_->shapes().tuple(scalars), {}, id));
    return id;
  }

  // The elements of a tuple of arrays; the tuple itself is no operand for the others.
  void take_apart(ValueId tuple) {
    values_.pop_back();
    const auto shapes = shape(tuple).elements;
    for (int64_t i = 0; i < static_cast<int64_t>(shapes.size()); ++i) {
      add(Opcode::kGetTupleElement, {tuple}, shapes[static_cast<size_t>(i)],
          {{AttributeKey::kTupleIndex, {&i, 1}, {}}});
    }
  }

  void add_arg_reduce(ValueId value) {
    const Dtype type = dtype(value);
    if (dims(value).empty() || type == Dtype::kPred) {
      return add_unary(value);
    }
    const Ints axis = {between(0, static_cast<int>(dims(value).size()) - 1)};
    const ValueId positions =
        add(Opcode::kIota, {}, Dtype::kS32, dims(value), {{AttributeKey::kDimensions, axis, {}}});
    const ValueId init = initial(Opcode::kMaximum, type);
    const ValueId zero = number(0);
    Ints wanted = dims(value);
    wanted.erase(wanted.begin() + axis[0]);
    const std::array<ShapeId, 2> shapes = {*graph_->shapes().array(type, wanted),
                                           *graph_->shapes().array(Dtype::kS32, wanted)};
    const Ints callee = {argmax_computation(type)};
    take_apart(add(Opcode::kReduce, {value, positions, init, zero}, *graph_->shapes().tuple(shapes),
                   {{AttributeKey::kDimensions, axis, {}}, {AttributeKey::kCalled, callee, {}}}));
  }

  void add_ordered(ValueId value) {
    switch (between(0, 4)) {
      case 0:
        return add_sort(value);
      case 1:
        return add_topk(value);
      case 2:
      case 3:
        return add_reduce_window(value);
      default:
        return add_select_and_scatter(value);
    }
  }

  void add_product(ValueId value) {
    switch (between(0, 5)) {
      case 0:
      case 1:
        return add_convolution(value);
      case 2:
        return add_batch_norm(value);
      case 3:
        return chance(50) ? add_cholesky(value) : add_triangular_solve(value);
      default:
        return add_dot(value);
    }
  }

  Ints shuffled(size_t count) {
    Ints order(count);
    for (size_t i = 0; i < count; ++i) {
      order[i] = static_cast<int64_t>(i);
    }
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  // A window of seven numbers for an axis.
  Ints random_axis() {
    return {between(1, 3),      chance(30) ? 2 : 1, between(-1, 2),    between(-1, 2),
            chance(20) ? 2 : 1, chance(20) ? 2 : 1, chance(20) ? 1 : 0};
  }

  void add_convolution(ValueId value) {
    const Ints input = dims(value);
    const size_t rank = input.size();
    if (rank < 2 || dtype(value) == Dtype::kPred) {
      return add_unary(value);
    }
    Ints numbers = shuffled(rank);  // batch, feature, spatial
    const int64_t batch = input[static_cast<size_t>(numbers[0])];
    const int64_t features = input[static_cast<size_t>(numbers[1])];
    Ints groups = {1, 1};
    if (features > 0 && chance(30)) {
      groups[0] = chance(50) && features % 2 == 0 ? 2 : features;
    } else if (batch > 0 && chance(20)) {
      groups[1] = batch;
    }
    const Ints kernel_numbers = shuffled(rank);
    const Ints output_numbers = shuffled(rank);
    Ints kernel(rank);
    Ints output(rank);
    const int64_t results = groups[0] * groups[1] * between(1, 3);
    kernel[static_cast<size_t>(kernel_numbers[0])] = features / groups[0];
    kernel[static_cast<size_t>(kernel_numbers[1])] = results;
    output[static_cast<size_t>(output_numbers[0])] = batch / groups[1];
    output[static_cast<size_t>(output_numbers[1])] = results;
    Ints window;
    int64_t work = batch * features * results;
    for (size_t i = 2; i < rank; ++i) {
      const Ints axis = random_axis();
      window.insert(window.end(), axis.begin(), axis.end());
      kernel[static_cast<size_t>(kernel_numbers[i])] = axis[0];
      const hir::WindowAxis read{axis[0], axis[1], axis[2], axis[3], axis[4], axis[5], false};
      const int64_t out = read.positions(input[static_cast<size_t>(numbers[i])]);
      output[static_cast<size_t>(output_numbers[i])] = out;
      work *= axis[0] * out;
    }
    if (work > 40 * kMostElements) {
      return add_unary(value);
    }
    numbers.insert(numbers.end(), kernel_numbers.begin(), kernel_numbers.end());
    numbers.insert(numbers.end(), output_numbers.begin(), output_numbers.end());
    const ValueId rhs = like(dtype(value), kernel);
    const Dtype type = is_floating(dtype(value)) && chance(40) ? Dtype::kF32 : dtype(value);
    add(Opcode::kConvolution, {value, rhs}, type, output,
        {{AttributeKey::kConvDims, numbers, {}},
         {AttributeKey::kWindow, window, {}},
         {AttributeKey::kGroups, groups, {}}});
  }

  void add_batch_norm(ValueId value) {
    if (dims(value).empty() || !is_floating(dtype(value)) || shape(value).element_count == 0) {
      return add_unary(value);
    }
    const Ints feature = {between(0, static_cast<int>(dims(value).size()) - 1)};
    const float epsilon = 1e-3F;
    const std::vector<Attribute> attributes = {
        {AttributeKey::kDimensions, feature, {}},
        {AttributeKey::kEpsilon, {}, std::as_bytes(std::span(&epsilon, 1))}};
    const Ints features = {dims(value)[static_cast<size_t>(feature[0])]};
    std::vector<ValueId> operands = {value};
    const int kind = between(0, 2);
    for (int i = 0; i < (kind == 0 ? 2 : kind == 1 ? 4 : 3); ++i) {
      operands.push_back(like(dtype(value), features));
    }
    if (kind == 1) {
      add(Opcode::kBatchNormInference, operands, dtype(value), dims(value), attributes);
      return;
    }
    if (kind == 2) {
      operands.push_back(like(dtype(value), dims(value)));
    }
    const ShapeId vector = *graph_->shapes().array(dtype(value), features);
    const std::array<ShapeId, 3> shapes = {(*graph_)[value].shape, vector, vector};
    const ValueId all = add(kind == 0 ? Opcode::kBatchNormTraining : Opcode::kBatchNormGrad,
                            operands, *graph_->shapes().tuple(shapes), attributes);
    values_.pop_back();  // a tuple is no operand for the others
    for (int64_t i = 0; i < 3; ++i) {
      add(Opcode::kGetTupleElement, {all}, shapes[static_cast<size_t>(i)],
          {{AttributeKey::kTupleIndex, {&i, 1}, {}}});
    }
  }

  void add_cholesky(ValueId value) {
    if (dims(value).empty() || !is_floating(dtype(value)) || dims(value).back() > 8) {
      return add_unary(value);
    }
    Ints square = dims(value);
    square.back() = std::max<int64_t>(square.back(), 1);
    square.insert(square.end() - 1, square.back());
    const Ints lower = {between(0, 1)};
    add(Opcode::kCholesky, {like(dtype(value), square)}, dtype(value), square,
        {{AttributeKey::kTriangle, lower, {}}});
  }

  void add_triangular_solve(ValueId value) {
    const Ints wanted = dims(value);
    const size_t rank = wanted.size();
    if (rank < 2 || !is_floating(dtype(value))) {
      return add_unary(value);
    }
    const Ints flags = {between(0, 1), between(0, 1), between(0, 1), between(1, 3)};
    Ints square = wanted;
    square[rank - 2] = square[rank - 1] = wanted[flags[0] != 0 ? rank - 2 : rank - 1];
    if (square[rank - 1] > 8) {
      return add_unary(value);
    }
    add(Opcode::kTriangularSolve, {like(dtype(value), square), value}, dtype(value), wanted,
        {{AttributeKey::kTriangle, flags, {}}});
  }

  ValueId compare(std::string_view direction, ValueId a, ValueId b, hir::ComputationId id,
                  bool total = false) {
    std::vector<Attribute> attributes = {
        {AttributeKey::kComparison, {}, std::as_bytes(std::span(direction))}};
    if (total) {
      attributes.push_back({AttributeKey::kTotalOrder, {}, {}});
    }
    return add(Opcode::kCompare, {a, b}, Dtype::kPred, {}, attributes, id);
  }

  ValueId scalar_constant(Dtype type, float value, hir::ComputationId id) {
    Bytes data(dtype_bytes(type));
    const ncx::Boxed from = std::bit_cast<uint32_t>(value);
    ncx::store_boxed(type, ncx::evaluate(ncx::ScalarOp::kConvert, type, Dtype::kF32, &from, 0, 0),
                     data.data());
    return add(Opcode::kConstant, {}, type, {}, {{AttributeKey::kLiteral, {}, data}}, id);
  }

  // An element as jnp.sort compares it: NaNs alike, zeros alike. (The sign of a NaN is no part of a
  // result, so the total order must not see it.)
  ValueId canonical(ValueId x, hir::ComputationId id) {
    const Dtype type = dtype(x);
    if (!is_floating(type)) {
      return x;
    }
    const ValueId zero = scalar_constant(type, 0, id);
    const ValueId made =
        add(Opcode::kSelect, {compare("EQ", x, zero, id), zero, x}, type, {}, {}, id);
    return add(Opcode::kSelect, {compare("NE", x, x, id), scalar_constant(type, NAN, id), made},
               type, {}, {}, id);
  }

  int64_t sort_computation(Dtype first, Dtype second) {
    const auto id = *graph_->add_computation("before");
    for (int i = 0; i < 4; ++i) {
      add_parameter(i, id, i < 2 ? first : second);
    }
    auto p = graph_->computation(id).parameters;
    const bool total = chance(50);
    if (total) {
      for (ValueId& parameter : p) {
        parameter = canonical(parameter, id);
      }
    }
    static constexpr std::string_view kDirections[] = {"LT", "GT", "LT", "GT", "LE", "NE"};
    const auto direction = [&] { return kDirections[between(0, options_.portable ? 3 : 5)]; };
    ValueId root = compare(direction(), p[0], p[1], id, total);
    if (chance(40)) {
      const ValueId equal = compare("EQ", p[0], p[1], id, total);
      const ValueId rest = compare(direction(), p[2], p[3], id, total);
      const ValueId both = add(Opcode::kAnd, {equal, rest}, Dtype::kPred, {}, {}, id);
      root = add(Opcode::kOr, {root, both}, Dtype::kPred, {}, {}, id);
    }
    (void)graph_->set_root(id, root);
    return id;
  }

  void add_sort(ValueId value) {
    if (shape(value).element_count > 150) {
      return add_unary(value);
    }
    const Ints axis = {between(0, static_cast<int>(dims(value).size()) - 1)};
    const ValueId other = like(pick(kTypes), dims(value));
    const Ints callee = {sort_computation(dtype(value), dtype(other))};
    const std::array<ShapeId, 2> shapes = {(*graph_)[value].shape, (*graph_)[other].shape};
    std::vector<Attribute> attributes = {{AttributeKey::kDimensions, axis, {}},
                                         {AttributeKey::kCalled, callee, {}}};
    if (options_.portable || chance(50)) {
      attributes.push_back({AttributeKey::kStable, {}, {}});
    }
    take_apart(add(Opcode::kSort, {value, other}, *graph_->shapes().tuple(shapes), attributes));
  }

  void add_topk(ValueId value) {
    const bool parameter = (*graph_)[value].opcode == Opcode::kParameter;
    if (is_floating(dtype(value)) && !parameter) {
      return add_unary(value);  // NaNs that are made may have either sign
    }
    Ints wanted = dims(value);
    const Ints k = {between(0, static_cast<int>(wanted.back()))};
    wanted.back() = k[0];
    const std::array<ShapeId, 2> shapes = {*graph_->shapes().array(dtype(value), wanted),
                                           *graph_->shapes().array(Dtype::kS32, wanted)};
    std::vector<Attribute> attributes = {{AttributeKey::kK, k, {}}};
    if (chance(70)) {
      attributes.push_back({AttributeKey::kLargest, {}, {}});
    }
    take_apart(add(Opcode::kTopK, {value}, *graph_->shapes().tuple(shapes), attributes));
  }

  // Attribute Window for these dims, and the numbers of windows; false if there are too many.
  bool random_window(const Ints& from, Ints& window, Ints& windows) {
    const int running = chance(25) ? between(0, static_cast<int>(from.size()) - 1) : -1;
    int64_t places = 1;
    for (size_t d = 0; d < from.size(); ++d) {
      const int64_t n = from[d];
      Ints w = {1, 1, 0, 0, 1, 1};
      if (running == static_cast<int>(d) && n > 0) {
        const bool backward = chance(50);
        w = {n, 1, backward ? 0 : n - 1, backward ? n - 1 : 0, 1, 1};
      } else if (running < 0 && chance(60)) {
        w = {between(1, 3),  between(1, 3), between(-1, 2),
             between(-1, 2), between(1, 2), chance(80) ? 1 : 2};
      }
      const int64_t padded = (n == 0 ? 0 : (n - 1) * w[5] + 1) + w[2] + w[3];
      const int64_t reach = (w[0] - 1) * w[4] + 1;
      windows.push_back(padded < reach ? 0 : (padded - reach) / w[1] + 1);
      window.insert(window.end(), w.begin(), w.end());
      window.push_back(0);
      places *= windows.back() * w[0];
    }
    return places <= 20000;
  }

  void add_reduce_window(ValueId value) {
    const Dtype type = dtype(value);
    Ints window;
    Ints windows;
    if (!random_window(dims(value), window, windows)) {
      return add_unary(value);
    }
    if (chance(20) && type != Dtype::kPred) {
      const ValueId init = initial(Opcode::kMaximum, type);
      const Ints axis = {0};
      const ValueId positions =
          add(Opcode::kIota, {}, Dtype::kS32, dims(value), {{AttributeKey::kDimensions, axis, {}}});
      const ValueId zero = number(0);
      const std::array<ShapeId, 2> shapes = {*graph_->shapes().array(type, windows),
                                             *graph_->shapes().array(Dtype::kS32, windows)};
      const Ints callee = {argmax_computation(type)};
      return take_apart(add(
          Opcode::kReduceWindow, {value, positions, init, zero}, *graph_->shapes().tuple(shapes),
          {{AttributeKey::kWindow, window, {}}, {AttributeKey::kCalled, callee, {}}}));
    }
    const Opcode combiner = random_combiner(type);
    const ValueId init = initial(combiner, type);
    const Ints callee = {binary_computation(combiner, type)};
    add(Opcode::kReduceWindow, {value, init}, type, windows,
        {{AttributeKey::kWindow, window, {}}, {AttributeKey::kCalled, callee, {}}});
  }

  void add_select_and_scatter(ValueId value) {
    const Dtype type = dtype(value);
    Ints window;
    Ints windows;
    if (!random_window(dims(value), window, windows)) {
      return add_unary(value);
    }
    for (size_t at = 0; options_.portable && at < window.size(); at += 7) {
      // StableHLO has no dilation here, and jaxlib ends at windows that don't fit anywhere.
      if (window[at + 4] != 1 || window[at + 5] != 1 || windows[at / 7] == 0) {
        return add_unary(value);
      }
    }
    const ValueId source = like(type, windows);
    const Opcode combiner = random_combiner(type);
    const ValueId init = initial(combiner, type);
    const auto select = *graph_->add_computation("select");
    add_parameter(0, select, type);
    add_parameter(1, select, type);
    const auto p = graph_->computation(select).parameters;
    static constexpr std::string_view kDirections[] = {"GE", "GT", "LE", "NE"};
    (void)graph_->set_root(select, compare(pick(kDirections), p[0], p[1], select));
    const Ints callees = {select, binary_computation(combiner, type)};
    add(Opcode::kSelectAndScatter, {value, source, init}, type, dims(value),
        {{AttributeKey::kWindow, window, {}}, {AttributeKey::kCalled, callees, {}}});
  }

  void add_dot(ValueId value) {
    if (dtype(value) == Dtype::kPred) {
      return add_unary(value);
    }
    Ints lhs_batch;
    Ints rhs_batch;
    Ints lhs_contracting;
    Ints rhs_contracting;
    Ints other;
    Ints batch;
    Ints free;
    for (size_t d = 0; d < dims(value).size(); ++d) {
      const int64_t size = dims(value)[d];
      const int role = between(0, 2);
      if (role == 0) {
        lhs_batch.push_back(static_cast<int64_t>(d));
        batch.push_back(size);
        rhs_batch.push_back(static_cast<int64_t>(other.size()));
        other.push_back(size);
      } else if (role == 1) {
        lhs_contracting.push_back(static_cast<int64_t>(d));
        rhs_contracting.push_back(static_cast<int64_t>(other.size()));
        other.push_back(size);
      } else {
        free.push_back(size);
      }
    }
    const int64_t columns = between(1, 5);
    other.push_back(columns);
    Ints wanted = batch;
    wanted.insert(wanted.end(), free.begin(), free.end());
    wanted.push_back(columns);
    int64_t count = 1;
    for (const int64_t dim : wanted) {
      count *= dim;
    }
    if (count > kMostElements) {
      return add_unary(value);
    }
    const ValueId rhs = like(dtype(value), other);
    const Dtype type = is_floating(dtype(value)) && chance(40) ? Dtype::kF32 : dtype(value);
    add(Opcode::kDot, {value, rhs}, type, wanted,
        {{AttributeKey::kLhsBatch, lhs_batch, {}},
         {AttributeKey::kRhsBatch, rhs_batch, {}},
         {AttributeKey::kLhsContracting, lhs_contracting, {}},
         {AttributeKey::kRhsContracting, rhs_contracting, {}}});
  }

  void add_indexed(ValueId value) {
    if (dims(value).empty()) {
      return add_unary(value);
    }
    switch (between(0, 3)) {
      case 0:
        return add_dynamic_slice(value);
      case 1:
        return add_dynamic_update_slice(value);
      case 2:
        return add_gather(value);
      default:
        return add_scatter(value);
    }
  }

  std::vector<ValueId> with_starts(std::vector<ValueId> operands, size_t count) {
    const Dtype type = chance(70) ? Dtype::kS32 : Dtype::kS64;
    for (size_t i = 0; i < count; ++i) {
      operands.push_back(like(type, {}));
    }
    return operands;
  }

  Ints window_of(ValueId value) {
    Ints sizes;
    for (const int64_t dim : dims(value)) {
      sizes.push_back(between(dim == 0 ? 0 : 1, static_cast<int>(dim)));
    }
    return sizes;
  }

  void add_dynamic_slice(ValueId value) {
    const Ints sizes = window_of(value);
    const auto operands = with_starts({value}, sizes.size());
    add(Opcode::kDynamicSlice, operands, dtype(value), sizes,
        {{AttributeKey::kSliceSizes, sizes, {}}});
  }

  void add_dynamic_update_slice(ValueId value) {
    const Ints sizes = window_of(value);
    const ValueId update = like(dtype(value), sizes);
    const auto operands = with_starts({value, update}, sizes.size());
    add(Opcode::kDynamicUpdateSlice, operands, dtype(value), dims(value));
  }

  // Rows of `value` along one dimension, as an embedding lookup does.
  void add_gather(ValueId value) {
    const Ints axis = {between(0, static_cast<int>(dims(value).size()) - 1)};
    const int64_t count = between(1, 6);
    if (dims(value)[static_cast<size_t>(axis[0])] == 0 ||
        shape(value).element_count * count > kMostElements * 4) {
      return add_unary(value);
    }
    const ValueId indices = like(chance(50) ? Dtype::kS32 : Dtype::kU8, {count, 1});
    Ints sizes = dims(value);
    sizes[static_cast<size_t>(axis[0])] = 1;
    Ints wanted = {count};
    Ints offset;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (static_cast<int64_t>(d) != axis[0]) {
        offset.push_back(static_cast<int64_t>(wanted.size()));
        wanted.push_back(sizes[d]);
      }
    }
    const Ints vector_dim = {1};
    add(Opcode::kGather, {value, indices}, dtype(value), wanted,
        {{AttributeKey::kOffsetDims, offset, {}},
         {AttributeKey::kCollapsedDims, axis, {}},
         {AttributeKey::kIndexMap, axis, {}},
         {AttributeKey::kIndexVectorDim, vector_dim, {}},
         {AttributeKey::kSliceSizes, sizes, {}}});
  }

  void add_scatter(ValueId value) {
    const Ints axis = {between(0, static_cast<int>(dims(value).size()) - 1)};
    const int64_t count = between(1, 6);
    if (shape(value).element_count * count > kMostElements * 4) {
      return add_unary(value);
    }
    const ValueId indices = like(Dtype::kS32, {count, 1});
    Ints updates = {count};
    Ints window;
    for (size_t d = 0; d < dims(value).size(); ++d) {
      if (static_cast<int64_t>(d) != axis[0]) {
        window.push_back(static_cast<int64_t>(updates.size()));
        updates.push_back(dims(value)[d]);
      }
    }
    const ValueId update = like(dtype(value), updates);
    const Ints callee = {binary_computation(pick(elementwise(dtype(value), 2)), dtype(value))};
    const Ints vector_dim = {1};
    add(Opcode::kScatter, {value, indices, update}, dtype(value), dims(value),
        {{AttributeKey::kOffsetDims, window, {}},
         {AttributeKey::kCollapsedDims, axis, {}},
         {AttributeKey::kIndexMap, axis, {}},
         {AttributeKey::kIndexVectorDim, vector_dim, {}},
         {AttributeKey::kCalled, callee, {}}});
  }

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

  ValueId element(ValueId tuple, int64_t i) {
    return add(Opcode::kGetTupleElement, {tuple}, shape(tuple).elements[static_cast<size_t>(i)],
               {{AttributeKey::kTupleIndex, {&i, 1}, {}}});
  }

  // A tuple is no operand for other operations.
  ValueId tuple(const std::vector<ValueId>& elements) {
    std::vector<ShapeId> shapes;
    for (const ValueId value : elements) {
      shapes.push_back((*graph_)[value].shape);
    }
    const ValueId made = add(Opcode::kTuple, elements, *graph_->shapes().tuple(shapes));
    values_.pop_back();
    return made;
  }

  // Values of the current computation as ((first), the others...).
  ValueId state_of(const std::vector<ValueId>& values) {
    std::vector<ValueId> elements = {tuple({values[0]})};
    elements.insert(elements.end(), values.begin() + 1, values.end());
    return tuple(elements);
  }
  std::vector<ValueId> values_of(ValueId state) {
    const auto count = static_cast<int64_t>(shape(state).elements.size());
    const ValueId first = element(state, 0);
    values_.pop_back();
    std::vector<ValueId> made = {element(first, 0)};
    for (int64_t i = 1; i < count; ++i) {
      made.push_back(element(state, i));
    }
    return made;
  }

  ValueId number(int32_t value) {
    const Bytes data = bytes_of<int32_t>({value});
    return add(Opcode::kConstant, {}, Dtype::kS32, {}, {{AttributeKey::kLiteral, {}, data}});
  }

  // What carried value `i` becomes: itself, another one, or what the body has made.
  ValueId next_value(const std::vector<ValueId>& carried, size_t i) {
    const int choice = between(0, 9);
    if (choice < 2) {
      return carried[i];
    }
    if (choice < 4) {
      for (const ValueId other : carried) {
        if (other != carried[i] && (*graph_)[other].shape == (*graph_)[carried[i]].shape) {
          return other;
        }
      }
    }
    if (choice < 7 && options_.indexed && !dims(carried[i]).empty()) {
      add_dynamic_update_slice(carried[i]);
      return values_.back();
    }
    return like(dtype(carried[i]), dims(carried[i]));
  }

  void add_loop() {
    std::vector<ValueId> init = {number(between(0, 2))};
    const int count = between(1, 5);
    for (int i = 0; i < count; ++i) {
      init.push_back(chance(15) ? init.back() : pick(values_));  // sometimes the same twice
    }
    const ValueId before = state_of(init);
    const ShapeId state = (*graph_)[before].shape;
    const int64_t condition = nested("condition", state, [&](ValueId parameter) {
      const std::vector<ValueId> values = values_of(parameter);
      if (chance(30)) {
        add_operation();
      }
      const std::string_view less = "LT";
      return add(Opcode::kCompare, {values[0], number(between(0, 4))}, Dtype::kPred, {},
                 {{AttributeKey::kComparison, {}, std::as_bytes(std::span(less))}});
    });
    const int64_t body = nested("body", state, [&](ValueId parameter) {
      std::vector<ValueId> values = values_of(parameter);
      for (int i = between(1, 6); i > 0; --i) {
        add_operation();
      }
      const std::vector<ValueId> carried = values;
      for (size_t i = 1; i < values.size(); ++i) {
        values[i] = next_value(carried, i);
      }
      const ValueId step = number(between(1, 2));
      if (init[1] == init[0] && chance(60)) {  // a second counter
        values[1] = add(Opcode::kAdd, {carried[1], chance(80) ? step : number(1)}, Dtype::kS32, {});
      }
      values[0] = add(Opcode::kAdd, {values[0], step}, Dtype::kS32, {});
      return state_of(values);
    });
    const Ints callees = {condition, body};
    const ValueId loop =
        add(Opcode::kWhile, {before}, state, {{AttributeKey::kCalled, callees, {}}});
    values_.pop_back();
    values_of(loop);
  }

  void add_conditional() {
    std::vector<ValueId> results = {pick(values_)};  // their types; no values are taken from here
    while (chance(60)) {
      results.push_back(pick(values_));
    }
    const bool two_way = chance(50);
    const int branches = two_way ? 2 : between(1, 4);
    std::vector<ValueId> operands = {two_way ? like(Dtype::kPred, {}) : like(Dtype::kS32, {})};
    Ints callees;
    ShapeId shape_id = -1;
    for (int i = 0; i < branches; ++i) {
      std::vector<ValueId> given = {pick(values_), pick(values_), results[0]};
      operands.push_back(state_of(given));
      callees.push_back(nested("branch", (*graph_)[operands.back()].shape, [&](ValueId parameter) {
        std::vector<ValueId> made = values_of(parameter);
        const ValueId last = made.back();
        for (int k = between(0, 4); k > 0; --k) {
          add_operation();
        }
        made.clear();
        for (const ValueId result : results) {
          made.push_back(chance(20) && (*graph_)[result].shape == (*graph_)[last].shape
                             ? last
                             : like(dtype(result), dims(result)));
        }
        const ValueId root = state_of(made);
        shape_id = (*graph_)[root].shape;
        return root;
      }));
    }
    const ValueId chosen =
        add(Opcode::kConditional, operands, shape_id, {{AttributeKey::kCalled, callees, {}}});
    values_.pop_back();
    values_of(chosen);
  }

  void finish() {
    std::vector<ValueId> outputs = {values_.back()};
    const int more = between(0, 3);
    for (int i = 0; i < more; ++i) {
      outputs.push_back(pick(values_));
    }
    std::vector<ShapeId> shapes;
    for (const ValueId output : outputs) {
      shapes.push_back((*graph_)[output].shape);
    }
    const ValueId root = add(Opcode::kTuple, outputs, *graph_->shapes().tuple(shapes));
    (void)graph_->set_root(hir::kEntry, root);
    const auto& parameters = graph_->computation(hir::kEntry).parameters;
    std::vector<bool> taken(parameters.size(), false);
    for (size_t i = 0; i < outputs.size(); ++i) {
      for (size_t p = 0; p < parameters.size(); ++p) {
        if (!taken[p] && (*graph_)[parameters[p]].shape == shapes[i] && chance(70)) {
          taken[p] = graph_->set_alias(static_cast<int32_t>(i), static_cast<int32_t>(p)).ok();
          break;
        }
      }
    }
  }

  std::mt19937_64 random_;
  RandomOptions options_;
  std::unique_ptr<hir::Graph> graph_;
  hir::ComputationId here_ = hir::kEntry;
  int depth_ = 0;                // of here_
  std::vector<ValueId> values_;  // of here_
  std::vector<Bytes> inputs_;
};

}  // namespace

RandomCase make_random_case(uint64_t seed, const RandomOptions& options) {
  return Generator(seed, options).run();
}

Result<std::vector<Bytes>> interpret_case(const RandomCase& random_case) {
  const hir::Graph& graph = *random_case.graph;
  std::vector<reference::Tensors> arguments;
  for (size_t i = 0; i < random_case.inputs.size(); ++i) {
    arguments.push_back(
        reference::make_tensors(graph, graph[graph.computation(hir::kEntry).parameters[i]].shape));
    arguments.back()[0].data = random_case.inputs[i];
  }
  ONRT_ASSIGN_OR_RETURN(reference::Tensors results,
                        reference::interpret(graph, hir::kEntry, arguments));
  std::vector<Bytes> made;
  for (reference::Tensor& result : results) {
    if (!result.data.empty()) {
      made.push_back(std::move(result.data));
    }
  }
  return made;
}

}  // namespace onrt::testing
