// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/micro_fusion.h"

#include <bit>

#include "emulator/isa/scalar_value.h"

namespace onrt {
namespace {

using ncx::MicroOp;
using ncx::RegisterClass;
using ncx::ScalarOp;

class Fuser {
 public:
  Fuser(const ncx::MicroProgram& program, std::span<const Dtype> input_types,
        std::span<const uint16_t> roots, const KernelTable& kernels)
      : program_(program), input_types_(input_types), roots_(roots), kernels_(kernels) {}

  MicroFusion run() {
    fusion_.steps.resize(program_.ops.size());
    fusion_.absorbed.assign(program_.ops.size(), false);
    count_uses();
    // Backwards: an op takes what makes its operands before that takes what makes theirs.
    for (size_t i = program_.ops.size(); i-- > 0;) {
      const auto reg = static_cast<uint16_t>(input_types_.size() + i);
      if (roots_[reg] == reg && uses_[reg] > 0 && !fusion_.absorbed[i]) {
        static_cast<void>(match_select(i) || match_division(i) || match_rotation(i) ||
                          match_chain(i));
      }
    }
    return std::move(fusion_);
  }

 private:
  Dtype type(uint16_t reg) const { return ncx::register_type(program_, input_types_, reg); }
  uint16_t operand(const MicroOp& op, size_t k) const { return roots_[op.operands[k]]; }

  // Of ops that are needed.
  void count_uses() {
    uses_.assign(roots_.size(), 0);
    for (const uint16_t result : program_.results) {
      uses_[roots_[result]] += 2;  // never absorbed
    }
    for (size_t i = program_.ops.size(); i-- > 0;) {
      const size_t reg = input_types_.size() + i;
      if (roots_[reg] != reg || uses_[reg] == 0) {
        continue;
      }
      for (int k = 0; k < ncx::scalar_op_info(program_.ops[i].op).arity; ++k) {
        ++uses_[operand(program_.ops[i], static_cast<size_t>(k))];
      }
    }
  }

  // The op that makes a register, if nothing else needs that register; -1.
  int64_t sole_maker(uint16_t reg) const {
    return reg >= input_types_.size() && uses_[reg] == 1
               ? static_cast<int64_t>(reg - input_types_.size())
               : -1;
  }
  const MicroOp& op_at(int64_t index) const { return program_.ops[static_cast<size_t>(index)]; }
  void absorb(int64_t index) { fusion_.absorbed[static_cast<size_t>(index)] = true; }

  const MicroOp* constant(uint16_t reg) const {
    if (reg < input_types_.size()) {
      return nullptr;
    }
    const MicroOp& op = program_.ops[reg - input_types_.size()];
    return op.op == ScalarOp::kConstant ? &op : nullptr;
  }

  // select(compare(x, constant), yes, no) of 32-bit registers.
  bool match_select(size_t i) {
    const MicroOp& op = program_.ops[i];
    if (op.op != ScalarOp::kSelect || register_bytes(ncx::register_class(op.type)) != 4) {
      return false;
    }
    const int64_t maker = sole_maker(operand(op, 0));
    if (maker < 0 || op_at(maker).op < ScalarOp::kCompareEq ||
        op_at(maker).op > ScalarOp::kCompareGe) {
      return false;
    }
    const MicroOp& compare = op_at(maker);
    const RegisterClass reg = ncx::register_class(type(compare.operands[0]));
    if (register_bytes(reg) != 4) {
      return false;
    }
    for (size_t k = 0; k < 2; ++k) {
      const MicroOp* value = constant(operand(compare, 1 - k));
      if (value == nullptr) {
        continue;
      }
      const ScalarOp turned = k == 0 ? compare.op : with_operands_swapped(compare.op);
      const auto number = static_cast<size_t>(turned) - static_cast<size_t>(ScalarOp::kCompareEq);
      fusion_.steps[i] = {kernels_.compare_select[number][static_cast<size_t>(reg)],
                          {operand(compare, k), operand(op, 1), operand(op, 2)},
                          3,
                          ncx::box_bits(value->type, value->immediate)};
      absorb(maker);
      return true;
    }
    return false;
  }

  // Division of integers by a constant.
  bool match_division(size_t i) {
    const MicroOp& op = program_.ops[i];
    const RegisterClass reg = ncx::register_class(op.type);
    if ((op.op != ScalarOp::kDivide && op.op != ScalarOp::kRemainder) ||
        (reg != RegisterClass::kI32 && reg != RegisterClass::kU32)) {
      return false;
    }
    const MicroOp* by = constant(operand(op, 1));
    const uint64_t value = by == nullptr ? 0 : ncx::box_bits(by->type, by->immediate) & 0xffffffffu;
    if (value < 2 || value > 0x7fffffffu) {
      return false;
    }
    const bool power = std::has_single_bit(value);
    const auto& kernels = op.op == ScalarOp::kDivide
                              ? (power ? kernels_.divide_by_power : kernels_.divide_by)
                              : (power ? kernels_.remainder_by_power : kernels_.remainder_by);
    fusion_.steps[i] = {kernels[static_cast<size_t>(reg)],
                        {operand(op, 0)},
                        1,
                        power ? static_cast<uint64_t>(std::countr_zero(value)) : value};
    return true;
  }

  static ScalarOp with_operands_swapped(ScalarOp compare) {
    switch (compare) {
      case ScalarOp::kCompareLt:
        return ScalarOp::kCompareGt;
      case ScalarOp::kCompareLe:
        return ScalarOp::kCompareGe;
      case ScalarOp::kCompareGt:
        return ScalarOp::kCompareLt;
      case ScalarOp::kCompareGe:
        return ScalarOp::kCompareLe;
      default:
        return compare;
    }
  }

  struct Rotation {
    uint16_t value = 0;
    bool is_constant = true;
    uint16_t count = 0;   // if not
    uint64_t counts = 0;  // else left | right << 8
    std::array<int64_t, 3> makers{-1, -1, -1};
  };

  // 32 - `count`, needed only here.
  bool is_rest(uint16_t reg, uint16_t count) const {
    const int64_t maker = sole_maker(reg);
    if (maker < 0 || op_at(maker).op != ScalarOp::kSubtract || op_at(maker).type != Dtype::kU32 ||
        operand(op_at(maker), 1) != count) {
      return false;
    }
    const MicroOp* all = constant(operand(op_at(maker), 0));
    return all != nullptr && all->immediate == 32;
  }

  // x << constant | x >> constant, both below 32, or x << count | x >> (32 - count).
  bool is_rotation(const MicroOp& op, Rotation& found) const {
    if (op.op != ScalarOp::kOr || op.type != Dtype::kU32) {
      return false;
    }
    for (size_t k = 0; k < 2; ++k) {
      const int64_t left = sole_maker(operand(op, k));
      const int64_t right = sole_maker(operand(op, 1 - k));
      if (left < 0 || right < 0 || op_at(left).op != ScalarOp::kShiftLeft ||
          op_at(right).op != ScalarOp::kShiftRightLogical || op_at(left).type != Dtype::kU32 ||
          op_at(right).type != Dtype::kU32 || operand(op_at(left), 0) != operand(op_at(right), 0)) {
        continue;
      }
      const MicroOp* by_left = constant(operand(op_at(left), 1));
      const MicroOp* by_right = constant(operand(op_at(right), 1));
      found.value = operand(op_at(left), 0);
      found.makers = {left, right, -1};
      if (by_left != nullptr && by_right != nullptr && by_left->immediate < 32 &&
          by_right->immediate < 32) {
        found.is_constant = true;
        found.counts = by_left->immediate | by_right->immediate << 8;
        return true;
      }
      found.count = operand(op_at(left), 1);
      const uint16_t rest = operand(op_at(right), 1);
      if (is_rest(rest, found.count)) {
        found.is_constant = false;
        found.makers[2] = sole_maker(rest);
        return true;
      }
    }
    return false;
  }

  // A rotation, and exclusive-or with one: rounds of ThreeFry.
  bool match_rotation(size_t i) {
    const MicroOp& op = program_.ops[i];
    Rotation rotation;
    if (is_rotation(op, rotation)) {
      fusion_.steps[i] =
          rotation.is_constant
              ? FusedStep{kernels_.rotate, {rotation.value}, 1, rotation.counts}
              : FusedStep{kernels_.rotate_by, {rotation.value, rotation.count}, 2, 0};
      absorb(rotation);
      return true;
    }
    for (size_t k = 0; op.op == ScalarOp::kXor && k < 2; ++k) {
      const int64_t maker = sole_maker(operand(op, k));
      if (maker >= 0 && is_rotation(op_at(maker), rotation)) {
        const uint16_t other = operand(op, 1 - k);
        fusion_.steps[i] =
            rotation.is_constant
                ? FusedStep{kernels_.rotate_xor, {rotation.value, other}, 2, rotation.counts}
                : FusedStep{kernels_.rotate_by_xor, {rotation.value, rotation.count, other}, 3, 0};
        absorb(maker);
        absorb(rotation);
        return true;
      }
    }
    return false;
  }
  void absorb(const Rotation& rotation) {
    for (const int64_t maker : rotation.makers) {
      if (maker >= 0) {
        absorb(maker);
      }
    }
  }

  // 0, 1, 2 for additions, subtractions and multiplications that need no rounding to their type.
  int chain_number(const MicroOp& op) const {
    if (register_bytes(ncx::register_class(op.type)) != 4 ||
        kernels_.settle[static_cast<size_t>(op.type)] != nullptr) {
      return -1;
    }
    switch (op.op) {
      case ScalarOp::kAdd:
        return 0;
      case ScalarOp::kSubtract:
        return 1;
      case ScalarOp::kMultiply:
        return 2;
      default:
        return -1;
    }
  }

  // outer(inner(a, b), c) or outer(c, inner(a, b)).
  bool match_chain(size_t i) {
    const MicroOp& op = program_.ops[i];
    const int outer = chain_number(op);
    for (size_t k = 0; outer >= 0 && k < 2; ++k) {
      const int64_t maker = sole_maker(operand(op, k));
      const int inner = maker < 0 ? -1 : chain_number(op_at(maker));
      // A bitcast may stand between the two.
      if (inner < 0 || is_floating(op_at(maker).type) != is_floating(op.type)) {
        continue;
      }
      const auto& table = is_floating(op.type) ? kernels_.chain_float : kernels_.chain_integer;
      fusion_.steps[i] = {table[static_cast<size_t>(outer)][static_cast<size_t>(inner)][k],
                          {operand(op_at(maker), 0), operand(op_at(maker), 1), operand(op, 1 - k)},
                          3,
                          0};
      absorb(maker);
      return true;
    }
    return false;
  }

  const ncx::MicroProgram& program_;
  std::span<const Dtype> input_types_;
  std::span<const uint16_t> roots_;
  const KernelTable& kernels_;
  MicroFusion fusion_;
  std::vector<int> uses_;  // by root register
};

}  // namespace

MicroFusion fuse_micro(const ncx::MicroProgram& program, std::span<const Dtype> input_types,
                       std::span<const uint16_t> roots, const KernelTable& kernels) {
  return Fuser(program, input_types, roots, kernels).run();
}

}  // namespace onrt
