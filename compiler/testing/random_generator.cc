// SPDX-License-Identifier: Apache-2.0
#include "compiler/testing/random_generator.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "emulator/isa/scalar_value.h"

namespace onrt::testing {
namespace {

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

constexpr int kDeepest = 3;  // loops and conditionals inside each other

}  // namespace

RandomCase Generator::run() {
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

int Generator::between(int low, int high) {
  return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1));
}

Ints Generator::random_dims() {
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

Bytes Generator::random_data(Dtype type, int64_t count) {
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
      ncx::store_boxed(type, ncx::evaluate(ncx::ScalarOp::kConvert, type, Dtype::kF32, &from, 0, 0),
                       at);
    } else {
      const uint64_t value = chance(10) ? random_() : random_() % 11 - 3;
      ncx::store_boxed(type, ncx::box_bits(type, type == Dtype::kPred ? value & 1 : value), at);
    }
  }
  return data;
}

ValueId Generator::add(Opcode opcode, const std::vector<ValueId>& operands, ShapeId shape_id,
                       const std::vector<Attribute>& attributes, hir::ComputationId computation) {
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

ValueId Generator::add(Opcode opcode, const std::vector<ValueId>& operands, Dtype type,
                       const Ints& result, const std::vector<Attribute>& attributes,
                       hir::ComputationId computation) {
  return add(opcode, operands, *graph_->shapes().array(type, result), attributes, computation);
}

void Generator::add_parameter(int64_t number, hir::ComputationId computation, Dtype type) {
  const Ints wanted = computation == hir::kEntry ? random_dims() : Ints{};
  type = computation == hir::kEntry ? pick(kTypes) : type;
  add(Opcode::kParameter, {}, type, wanted, {{AttributeKey::kParameterNumber, {&number, 1}, {}}},
      computation);
  if (computation == hir::kEntry) {
    inputs_.push_back(random_data(type, shape(values_.back()).element_count));
  }
}

ValueId Generator::constant(Dtype type, const Ints& wanted) {
  int64_t count = 1;
  for (const int64_t dim : wanted) {
    count *= dim;
  }
  const Bytes data = random_data(type, count);
  return add(Opcode::kConstant, {}, type, wanted, {{AttributeKey::kLiteral, {}, data}});
}

// A value of exactly these dims and this type, made from what is there.
ValueId Generator::like(Dtype type, const Ints& wanted) {
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

ValueId Generator::converted(ValueId value, Dtype type) {
  return dtype(value) == type ? value : add(Opcode::kConvert, {value}, type, dims(value));
}

// Opcodes of elementwise rows that take `count` operands of this type.
std::vector<Opcode> Generator::elementwise(Dtype type, int count) {
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

void Generator::add_operation() {
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

void Generator::finish() {
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

}  // namespace onrt::testing
