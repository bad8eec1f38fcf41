// SPDX-License-Identifier: Apache-2.0
#include "emulator/isa/scalar_value.h"

#include <cstring>

#include "emulator/isa/scalar_ops.h"

namespace onrt::ncx {
namespace {

template <class T>
Boxed box(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return float_bits(value);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    return value;
  }
}

template <class T>
T unbox(Boxed value) {
  if constexpr (std::is_same_v<T, float>) {
    return bits_float(static_cast<uint32_t>(value));
  } else {
    return static_cast<T>(value);
  }
}

// Calls f.template operator()<Dtype>() for a run-time dtype.
template <class F>
auto with_dtype(Dtype dtype, F f) {
  switch (dtype) {
#define ONRT_DTYPE(name, text, bytes, nrt, xla) \
  case Dtype::k##name:                          \
    return f.template operator()<Dtype::k##name>();
#include "runtime/base/dtype.def"
#undef ONRT_DTYPE
  }
  return f.template operator()<Dtype::kF32>();
}

float float_unary(ScalarOp op, float x, uint64_t immediate) {
  switch (op) {
    case ScalarOp::kExp:
      return exp_f32(x);
    case ScalarOp::kExpm1:
      return expm1_f32(x);
    case ScalarOp::kLog:
      return log_f32(x);
    case ScalarOp::kLog1p:
      return log1p_f32(x);
    case ScalarOp::kLogistic:
      return logistic_f32(x);
    case ScalarOp::kTanh:
      return tanh_f32(x);
    case ScalarOp::kSqrt:
      return square_root(x);
    case ScalarOp::kRsqrt:
      return rsqrt_f32(x);
    case ScalarOp::kCbrt:
      return cbrt_f32(x);
    case ScalarOp::kErf:
      return erf_f32(x);
    case ScalarOp::kSin:
      return trigonometric_f32<Trigonometric::kSin>(x);
    case ScalarOp::kCos:
      return trigonometric_f32<Trigonometric::kCos>(x);
    case ScalarOp::kTan:
      return trigonometric_f32<Trigonometric::kTan>(x);
    case ScalarOp::kAcos:
      return acos_f32(x);
    case ScalarOp::kAcosh:
      return acosh_f32(x);
    case ScalarOp::kAsin:
      return asin_f32(x);
    case ScalarOp::kAsinh:
      return asinh_f32(x);
    case ScalarOp::kAtan:
      return atan_f32(x);
    case ScalarOp::kAtanh:
      return atanh_f32(x);
    case ScalarOp::kCosh:
      return cosh_f32(x);
    case ScalarOp::kSinh:
      return sinh_f32(x);
    case ScalarOp::kFloor:
      return scalar_floor(x);
    case ScalarOp::kCeil:
      return scalar_ceil(x);
    case ScalarOp::kRoundNearestEven:
      return scalar_round_even(x);
    case ScalarOp::kRoundNearestAfz:
      return scalar_round_afz(x);
    case ScalarOp::kReducePrecision:
      return reduce_precision(x, static_cast<int32_t>(immediate & 0xff),
                              static_cast<int32_t>((immediate >> 8) & 0xff));
    default:
      return x;
  }
}

template <class T>
T integer_op(ScalarOp op, T a, T b, int bits) {
  switch (op) {
    case ScalarOp::kNot:
      return static_cast<T>(bits == 1 ? a ^ T{1} : ~a);
    case ScalarOp::kPopulationCount:
      return scalar_popcount(a, bits);
    case ScalarOp::kCountLeadingZeros:
      return scalar_leading_zeros(a, bits);
    case ScalarOp::kAnd:
      return static_cast<T>(a & b);
    case ScalarOp::kOr:
      return static_cast<T>(a | b);
    case ScalarOp::kXor:
      return static_cast<T>(a ^ b);
    case ScalarOp::kShiftLeft:
      return scalar_shift_left(a, b, bits);
    case ScalarOp::kShiftRightArithmetic:
      return scalar_shift_right_arithmetic(a, b, bits);
    case ScalarOp::kShiftRightLogical:
      return scalar_shift_right_logical(a, b, bits);
    case ScalarOp::kMulhi:
      return scalar_multiply_high(a, b, bits);
    default:
      return a;
  }
}

// Ops whose result has the operands' type, before settling.
template <class T>
T same_type_op(ScalarOp op, T a, T b, T c, int bits, uint64_t immediate) {
  switch (op) {
    case ScalarOp::kAbs:
      return scalar_abs(a);
    case ScalarOp::kNegate:
      return scalar_negate(a);
    case ScalarOp::kSign:
      return scalar_sign(a);
    case ScalarOp::kAdd:
      return scalar_add(a, b);
    case ScalarOp::kSubtract:
      return scalar_subtract(a, b);
    case ScalarOp::kMultiply:
      return scalar_multiply(a, b);
    case ScalarOp::kDivide:
      return scalar_divide(a, b);
    case ScalarOp::kRemainder:
      return scalar_remainder(a, b);
    case ScalarOp::kMaximum:
      return scalar_maximum(a, b);
    case ScalarOp::kMinimum:
      return scalar_minimum(a, b);
    case ScalarOp::kPower:
      return scalar_power(a, b);
    case ScalarOp::kClamp:
      return scalar_clamp(a, b, c);
    default:
      break;
  }
  if constexpr (kIsFloat<T>) {
    return op == ScalarOp::kAtan2 ? atan2_f32(a, b) : float_unary(op, a, immediate);
  } else {
    return integer_op(op, a, b, bits);
  }
}

template <class T>
bool compare(ScalarOp op, T a, T b) {
  switch (op) {
    case ScalarOp::kCompareEq:
    case ScalarOp::kCompareTotalEq:
      return a == b;
    case ScalarOp::kCompareNe:
    case ScalarOp::kCompareTotalNe:
      return a != b;
    case ScalarOp::kCompareLt:
    case ScalarOp::kCompareTotalLt:
      return a < b;
    case ScalarOp::kCompareLe:
    case ScalarOp::kCompareTotalLe:
      return a <= b;
    case ScalarOp::kCompareGt:
    case ScalarOp::kCompareTotalGt:
      return a > b;
    default:
      return a >= b;
  }
}

template <Dtype kOperand>
bool predicate_op(ScalarOp op, const Boxed* operands) {
  using T = typename Element<kOperand>::Register;
  const T a = unbox<T>(operands[0]);
  if constexpr (kIsFloat<T>) {
    if (op == ScalarOp::kIsFinite) {
      return scalar_is_finite(a) != 0;
    }
    if (op >= ScalarOp::kCompareTotalEq && op <= ScalarOp::kCompareTotalGe) {
      return compare(op, total_order_key(a), total_order_key(unbox<float>(operands[1])));
    }
  }
  return compare(op, a, unbox<T>(operands[1]));
}

Boxed convert_boxed(Dtype from, Dtype to, Boxed value) {
  return with_dtype(from, [&]<Dtype kFrom>() {
    return with_dtype(to, [&]<Dtype kTo>() {
      return box(convert_element<kFrom, kTo>(unbox<typename Element<kFrom>::Register>(value)));
    });
  });
}

Boxed iota_boxed(Dtype type, int64_t index) {
  return with_dtype(type,
                    [&]<Dtype kType>() { return box(convert_element<Dtype::kS64, kType>(index)); });
}

}  // namespace

Boxed load_boxed(Dtype dtype, const void* element) {
  return with_dtype(dtype, [&]<Dtype kType>() {
    typename Element<kType>::Memory memory;
    std::memcpy(&memory, element, sizeof(memory));
    return box(Element<kType>::load(memory));
  });
}

void store_boxed(Dtype dtype, Boxed value, void* element) {
  with_dtype(dtype, [&]<Dtype kType>() {
    const typename Element<kType>::Memory memory =
        Element<kType>::store(unbox<typename Element<kType>::Register>(value));
    std::memcpy(element, &memory, sizeof(memory));
  });
}

Boxed box_bits(Dtype dtype, uint64_t bits) { return load_boxed(dtype, &bits); }

Boxed settle_boxed(Dtype type, Boxed value) {
  return with_dtype(type, [&]<Dtype kType>() {
    return box(Element<kType>::settle(unbox<typename Element<kType>::Register>(value)));
  });
}

Boxed combine_unrounded(ScalarOp combiner, Dtype type, Boxed a, Boxed b) {
  return with_dtype(type, [&]<Dtype kType>() {
    using T = typename Element<kType>::Register;
    const T x = unbox<T>(a);
    return box(same_type_op<T>(combiner, x, unbox<T>(b), x, kElementBits<kType>, 0));
  });
}

Boxed combiner_identity(ScalarOp combiner, Dtype type) {
  return with_dtype(type, [&]<Dtype kType>() {
    using T = typename Element<kType>::Register;
    using M = typename Element<kType>::Memory;
    switch (combiner) {
      case ScalarOp::kMultiply:
        return box(static_cast<T>(1));
      case ScalarOp::kMinimum:
      case ScalarOp::kMaximum:
        if constexpr (kIsFloat<T>) {
          return box(combiner == ScalarOp::kMinimum ? kInfinity : -kInfinity);
        } else if constexpr (kType == Dtype::kPred) {
          return box(static_cast<T>(combiner == ScalarOp::kMinimum));
        } else {
          const M all = static_cast<M>(~std::make_unsigned_t<M>{0});
          const M top = std::is_signed_v<M>
                            ? static_cast<M>(static_cast<std::make_unsigned_t<M>>(all) >> 1)
                            : all;
          return box(static_cast<T>(combiner == ScalarOp::kMinimum ? top : static_cast<M>(~top)));
        }
      case ScalarOp::kAnd:
        if constexpr (kIsFloat<T>) {
          return box(T{0});
        } else {
          return box(Element<kType>::settle(static_cast<T>(~T{0})));
        }
      default:  // add, or, xor. -0 is the float that changes nothing when added.
        if constexpr (kIsFloat<T>) {
          return box(-0.0f);
        } else {
          return box(T{0});
        }
    }
  });
}

Boxed evaluate(ScalarOp op, Dtype result, Dtype operand, const Boxed* operands, uint64_t immediate,
               int64_t index) {
  switch (op) {
    case ScalarOp::kConstant:
      return box_bits(result, immediate);
    case ScalarOp::kIota:
      return iota_boxed(result, index);
    case ScalarOp::kConvert:
      return convert_boxed(operand, result, operands[0]);
    case ScalarOp::kBitcastConvert: {
      uint64_t bits = 0;
      store_boxed(operand, operands[0], &bits);
      return load_boxed(result, &bits);
    }
    case ScalarOp::kSelect:
      return operands[0] != 0 ? operands[1] : operands[2];
    default:
      break;
  }
  const ScalarOpInfo& info = scalar_op_info(op);
  if (info.result == ResultRule::kPred) {
    return with_dtype(operand,
                      [&]<Dtype kType>() { return Boxed{predicate_op<kType>(op, operands)}; });
  }
  return with_dtype(operand, [&]<Dtype kType>() {
    using T = typename Element<kType>::Register;
    const T a = unbox<T>(operands[0]);
    const T b = info.arity > 1 ? unbox<T>(operands[1]) : a;
    const T c = info.arity > 2 ? unbox<T>(operands[2]) : a;
    return box(
        Element<kType>::settle(same_type_op<T>(op, a, b, c, kElementBits<kType>, immediate)));
  });
}

Dtype register_type(const MicroProgram& program, std::span<const Dtype> input_types, uint16_t reg) {
  return reg < input_types.size() ? input_types[reg] : program.ops[reg - input_types.size()].type;
}

void run_micro_program(const MicroProgram& program, std::span<const Dtype> input_types,
                       Boxed* registers, const int64_t* index) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const MicroOp& op = program.ops[i];
    const int arity = scalar_op_info(op.op).arity;
    Boxed operands[3] = {0, 0, 0};
    for (int k = 0; k < arity; ++k) {
      operands[k] = registers[op.operands[k]];
    }
    const Dtype operand_type =
        arity == 0 ? op.type : register_type(program, input_types, op.operands[arity - 1]);
    const int64_t position = op.op == ScalarOp::kIota ? index[op.immediate] : 0;
    registers[input_types.size() + i] =
        evaluate(op.op, op.type, operand_type, operands, op.immediate, position);
  }
}

}  // namespace onrt::ncx
