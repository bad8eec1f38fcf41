// SPDX-License-Identifier: Apache-2.0
// Floor division and modulo of integers by constants, as frameworks write them with HLO's division
// that rounds towards zero: by a power of two they are a shift and a mask, else at least the
// conditions are simpler. Every rewriting gives the same bits for all operands.
#include <bit>
#include <optional>

#include "compiler/lowering/lowerer.h"

namespace onrt::lowering {
namespace {

using ncx::ScalarOp;

class IntegerIdioms {
 public:
  explicit IntegerIdioms(Micro& micro) : micro_(micro), old_(std::move(micro.ops)) {
    micro.ops.clear();
  }

  // What nothing uses any more stays: drop_unused() takes it away.
  void run() {
    std::vector<Reg> renamed(old_.size());
    const auto rename = [&](Reg& reg) {
      if (reg.list == Reg::List::kOp) {
        reg = renamed[reg.index];
      }
    };
    for (size_t i = 0; i < old_.size(); ++i) {
      Micro::Op op = old_[i];
      for (Reg& operand : op.operands) {
        rename(operand);
      }
      const auto known = simplified(op);
      renamed[i] = known ? *known : micro_.add_op(op);
    }
    for (Micro::Output& output : micro_.outputs) {
      rename(output.reg);
    }
  }

 private:
  const Micro::Op* op(Reg reg, ScalarOp wanted) const {
    return reg.list == Reg::List::kOp && micro_.ops[reg.index].op == wanted ? &micro_.ops[reg.index]
                                                                            : nullptr;
  }

  // The value of a constant, sign-extended.
  std::optional<int64_t> constant(Reg reg) const {
    const Micro::Op* found = op(reg, ScalarOp::kConstant);
    if (found == nullptr) {
      return std::nullopt;
    }
    const int unused = 64 - 8 * static_cast<int>(dtype_bytes(found->type));
    const auto bits = static_cast<int64_t>(found->immediate << unused);
    return is_signed(found->type) ? bits >> unused
                                  : static_cast<int64_t>(static_cast<uint64_t>(bits) >> unused);
  }
  bool is_constant(Reg reg, int64_t value) const { return constant(reg) == value; }

  static bool is_signed(Dtype type) {
    return type == Dtype::kS8 || type == Dtype::kS16 || type == Dtype::kS32 || type == Dtype::kS64;
  }

  // The remainder by a positive constant that a register is; nothing else.
  const Micro::Op* remainder(Reg reg) const {
    const Micro::Op* found = op(reg, ScalarOp::kRemainder);
    return found != nullptr && is_signed(found->type) &&
                   constant(found->operands[1]).value_or(0) > 0
               ? found
               : nullptr;
  }

  // The register that `reg` compares with zero.
  std::optional<Reg> compared_with_zero(Reg reg, ScalarOp comparison) const {
    const Micro::Op* found = op(reg, comparison);
    return found != nullptr && is_constant(found->operands[1], 0)
               ? std::optional(found->operands[0])
               : std::nullopt;
  }

  // A register that equals what `made` would compute. `made` may be changed into a simpler one.
  std::optional<Reg> simplified(Micro::Op& made) {
    switch (made.op) {
      case ScalarOp::kCompareNe:
        return type_of(made.operands[0]) == Dtype::kPred && is_constant(made.operands[1], 0)
                   ? std::optional(made.operands[0])
                   : std::nullopt;
      case ScalarOp::kAnd:
        return made.type == Dtype::kPred ? negative_remainder(made) : std::nullopt;
      case ScalarOp::kSelect:
        select_by_sign(made);
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  Dtype type_of(Reg reg) const { return micro_.type(reg); }

  // Of a remainder r by c > 0: "r < 0 and r != 0" and "sign(x) != 1 and r != 0" are "r < 0".
  std::optional<Reg> negative_remainder(const Micro::Op& made) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const auto rest = compared_with_zero(made.operands[1 - i], ScalarOp::kCompareNe);
      const Micro::Op* of = rest ? remainder(*rest) : nullptr;
      if (of == nullptr) {
        continue;
      }
      const Reg other = made.operands[i];
      if (compared_with_zero(other, ScalarOp::kCompareLt) == rest) {
        return other;
      }
      const Micro::Op* signs = op(other, ScalarOp::kCompareNe);
      const Micro::Op* sign = signs != nullptr ? op(signs->operands[0], ScalarOp::kSign) : nullptr;
      if (sign != nullptr && sign->operands[0] == of->operands[0] &&
          is_constant(signs->operands[1], 1)) {
        const Dtype type = of->type;
        const Reg zero = micro_.add_op({ScalarOp::kConstant, type, {}, 0});
        return micro_.add_op({ScalarOp::kCompareLt, Dtype::kPred, {*rest, zero}, 0});
      }
    }
    return std::nullopt;
  }

  // "r < 0 ? r + c : r" is the modulo, "r < 0 ? x / c - 1 : x / c" the floor of the quotient.
  void select_by_sign(Micro::Op& made) {
    const auto rest = compared_with_zero(made.operands[0], ScalarOp::kCompareLt);
    const Micro::Op* of = rest ? remainder(*rest) : nullptr;
    if (of == nullptr) {
      return;
    }
    const Reg x = of->operands[0];
    const Reg divisor = of->operands[1];
    const Dtype type = of->type;
    const auto c = static_cast<uint64_t>(*constant(divisor));
    const Reg no = made.operands[2];
    if (!std::has_single_bit(c)) {
      return;
    }
    if (no == *rest && is_sum(made.operands[1], *rest, divisor)) {
      made = {ScalarOp::kAnd, type, {x, micro_.add_op({ScalarOp::kConstant, type, {}, c - 1})}, 0};
      return;
    }
    const Micro::Op* quotient = op(no, ScalarOp::kDivide);
    if (quotient != nullptr && quotient->operands[0] == x && quotient->operands[1] == divisor &&
        is_one_less(made.operands[1], no)) {
      const auto bits = static_cast<uint64_t>(std::countr_zero(c));
      const Reg count = micro_.add_op({ScalarOp::kConstant, type, {}, bits});
      made = {ScalarOp::kShiftRightArithmetic, type, {x, count}, 0};
    }
  }

  bool is_sum(Reg reg, Reg a, Reg b) const {
    const Micro::Op* sum = op(reg, ScalarOp::kAdd);
    return sum != nullptr && ((sum->operands[0] == a && sum->operands[1] == b) ||
                              (sum->operands[0] == b && sum->operands[1] == a));
  }
  bool is_one_less(Reg reg, Reg than) const {
    const Micro::Op* less = op(reg, ScalarOp::kSubtract);
    return less != nullptr && less->operands[0] == than && is_constant(less->operands[1], 1);
  }

  Micro& micro_;
  std::vector<Micro::Op> old_;
};

}  // namespace

void simplify_integers(Plan& plan) {
  for (Kernel& kernel : plan.kernels) {
    for (Micro* micro : {&kernel.prologue, &kernel.tail}) {
      const bool divides = std::ranges::any_of(
          micro->ops, [](const Micro::Op& op) { return op.op == ScalarOp::kRemainder; });
      if (divides) {
        IntegerIdioms(*micro).run();
      }
    }
  }
}

}  // namespace onrt::lowering
