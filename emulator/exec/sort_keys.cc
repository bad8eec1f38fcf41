// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/sort_keys.h"

#include <array>
#include <optional>

#include "emulator/isa/scalar_ops.h"

namespace onrt {
namespace {

using ncx::MicroOp;
using ncx::ScalarOp;

constexpr uint8_t kLeft = 1;
constexpr uint8_t kRight = 2;

struct Comparison {
  uint16_t left = 0;  // register made of left elements alone
  uint16_t right = 0;
  bool greater = false;
  bool total = false;
};

class KeyFinder {
 public:
  KeyFinder(const ncx::MicroProgram& program, std::span<const Dtype> types)
      : program_(program), types_(types), inputs_(2 * types.size()) {
    mirror_.fill(kUnknown);
    for (size_t reg = 0; reg < inputs_; ++reg) {
      sides_.push_back(reg % 2 == 0 ? kLeft : kRight);
    }
    for (const MicroOp& op : program.ops) {
      uint8_t side = 0;
      for (int k = 0; k < ncx::scalar_op_info(op.op).arity; ++k) {
        side |= sides_[op.operands[static_cast<size_t>(k)]];
      }
      sides_.push_back(side);
    }
  }

  // False if the register is not a comparison of keys.
  bool find(uint16_t reg, std::vector<SortKey>& keys) {
    // Every step goes to an operand, which is an earlier register.
    for (;;) {
      if (const auto single = order(reg)) {
        keys.push_back(key_of(*single));
        return true;
      }
      const auto step = lexicographic(reg);
      if (!step) {
        return false;
      }
      keys.push_back(key_of(step->first));
      reg = step->rest;
    }
  }

 private:
  static constexpr int kUnknown = -1;

  struct Step {
    Comparison first;
    uint16_t rest;
  };

  const MicroOp* op_of(uint16_t reg) const {
    return reg < inputs_ ? nullptr : &program_.ops[reg - inputs_];
  }
  Dtype type_of(uint16_t reg) const {
    return reg < inputs_ ? types_[reg / 2] : program_.ops[reg - inputs_].type;
  }

  // Comparison of a left and a right register that are made in the same way.
  std::optional<Comparison> comparison(uint16_t reg, ScalarOp plain, ScalarOp total) {
    const MicroOp* op = op_of(reg);
    if (op == nullptr || (op->op != plain && op->op != total)) {
      return std::nullopt;
    }
    const uint16_t a = op->operands[0];
    const uint16_t b = op->operands[1];
    Comparison made{a, b, false, op->op == total};
    if (sides_[a] == kRight) {
      made.left = b;
      made.right = a;
    }
    if (sides_[made.left] != kLeft || sides_[made.right] != kRight ||
        !mirrors(made.left, made.right)) {
      return std::nullopt;
    }
    return made;
  }

  std::optional<Comparison> order(uint16_t reg) {
    for (const bool greater : {false, true}) {
      auto made = greater ? comparison(reg, ScalarOp::kCompareGt, ScalarOp::kCompareTotalGt)
                          : comparison(reg, ScalarOp::kCompareLt, ScalarOp::kCompareTotalLt);
      if (made) {
        made->greater = greater != (op_of(reg)->operands[0] == made->right);
        return made;
      }
    }
    return std::nullopt;
  }

  // `reg` is true where the keys of `first` are equal.
  bool is_equality(uint16_t reg, const Comparison& first) {
    const auto equal = comparison(reg, ScalarOp::kCompareEq, ScalarOp::kCompareTotalEq);
    return equal && equal->left == first.left && equal->right == first.right &&
           equal->total == first.total;
  }

  // or(first, and(equal, rest)) or select(equal, rest, first).
  std::optional<Step> lexicographic(uint16_t reg) {
    const MicroOp* op = op_of(reg);
    if (op == nullptr) {
      return std::nullopt;
    }
    if (op->op == ScalarOp::kSelect) {
      const auto first = order(op->operands[2]);
      return first && is_equality(op->operands[0], *first)
                 ? std::optional(Step{*first, op->operands[1]})
                 : std::nullopt;
    }
    if (op->op != ScalarOp::kOr) {
      return std::nullopt;
    }
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const auto first = order(op->operands[i]);
      const MicroOp* both = op_of(op->operands[1 - i]);
      if (!first || both == nullptr || both->op != ScalarOp::kAnd) {
        continue;
      }
      for (const size_t k : {size_t{0}, size_t{1}}) {
        if (is_equality(both->operands[k], *first)) {
          return Step{*first, both->operands[1 - k]};
        }
      }
    }
    return std::nullopt;
  }

  // Register b is made from right elements as a is from left ones.
  bool mirrors(uint16_t a, uint16_t b) {
    if (a < inputs_ || b < inputs_) {
      return a < inputs_ && a % 2 == 0 && b == a + 1;
    }
    int& known = mirror_[a - inputs_];
    if (known != kUnknown) {
      return known == b;
    }
    const MicroOp& x = *op_of(a);
    const MicroOp& y = *op_of(b);
    bool same = x.op == y.op && x.type == y.type && x.immediate == y.immediate &&
                (sides_[a] & kRight) == 0 && (sides_[b] & kLeft) == 0;
    for (int k = 0; same && k < ncx::scalar_op_info(x.op).arity; ++k) {
      same = mirrors(x.operands[static_cast<size_t>(k)], y.operands[static_cast<size_t>(k)]);
    }
    if (same) {
      known = b;
    }
    return same;
  }

  // The ops behind a register of left elements, with one input per array.
  SortKey key_of(const Comparison& comparison) const {
    std::vector<bool> needed(inputs_ + program_.ops.size(), false);
    needed[comparison.left] = true;
    std::vector<uint16_t> renumbered(needed.size());
    for (size_t reg = needed.size(); reg-- > inputs_;) {
      const MicroOp& op = program_.ops[reg - inputs_];
      for (int k = 0; needed[reg] && k < ncx::scalar_op_info(op.op).arity; ++k) {
        needed[op.operands[static_cast<size_t>(k)]] = true;
      }
    }
    SortKey key;
    for (size_t reg = 0; reg < needed.size(); ++reg) {
      if (reg < inputs_) {
        renumbered[reg] = static_cast<uint16_t>(reg / 2);
        if (reg % 2 == 0) {
          key.inputs.push_back(needed[reg]);
        }
      } else if (needed[reg]) {
        MicroOp op = program_.ops[reg - inputs_];
        for (int k = 0; k < ncx::scalar_op_info(op.op).arity; ++k) {
          uint16_t& operand = op.operands[static_cast<size_t>(k)];
          operand = renumbered[operand];
        }
        renumbered[reg] = static_cast<uint16_t>(types_.size() + key.value.ops.size());
        key.value.ops.push_back(op);
      }
    }
    key.value.results = {renumbered[comparison.left]};
    key.type = type_of(comparison.left);
    key.descending = comparison.greater;
    key.total = comparison.total;
    return key;
  }

  const ncx::MicroProgram& program_;
  std::span<const Dtype> types_;
  size_t inputs_;
  std::vector<uint8_t> sides_;                 // by register
  std::array<int, ncx::kMaxMicroOps> mirror_;  // by op: its known mirror
};

template <class T>
void encode_words(const void* registers, size_t n, bool descending, uint32_t* high, uint32_t* low) {
  const auto* x = static_cast<const T*>(registers);
  const uint32_t flip = descending ? ~uint32_t{0} : 0;
  for (size_t i = 0; i < n; ++i) {
    if constexpr (sizeof(T) == 4) {
      constexpr uint32_t kSign = std::is_signed_v<T> ? 0x80000000u : 0;
      high[i] = static_cast<uint32_t>(x[i]) ^ kSign ^ flip;
    } else {
      constexpr uint64_t kSign = std::is_signed_v<T> ? uint64_t{1} << 63 : 0;
      const uint64_t word = static_cast<uint64_t>(x[i]) ^ kSign;
      high[i] = static_cast<uint32_t>(word >> 32) ^ flip;
      low[i] = static_cast<uint32_t>(word) ^ flip;
    }
  }
}

bool encode_floats(const void* registers, size_t n, const SortKey& key, uint32_t* out) {
  const auto* x = static_cast<const float*>(registers);
  const uint32_t flip = 0x80000000u ^ (key.descending ? ~uint32_t{0} : 0);
  uint32_t nan = 0;
  for (size_t i = 0; i < n; ++i) {
    const float zero_is_positive = x[i] == 0.0f ? 0.0f : x[i];
    nan |= static_cast<uint32_t>(x[i] != x[i]);
    out[i] =
        static_cast<uint32_t>(ncx::total_order_key(key.total ? x[i] : zero_is_positive)) ^ flip;
  }
  return key.total || nan == 0;
}

}  // namespace

std::vector<SortKey> find_sort_keys(const ncx::MicroProgram& comparator,
                                    std::span<const Dtype> input_types) {
  std::vector<SortKey> keys;
  KeyFinder finder(comparator, input_types);
  if (!finder.find(comparator.results[0], keys)) {
    keys.clear();
  }
  return keys;
}

int sort_words(Dtype type) { return ncx::register_class(type) >= ncx::RegisterClass::kI64 ? 2 : 1; }

bool encode_sort_key(const SortKey& key, const void* registers, size_t n, uint32_t* high,
                     uint32_t* low) {
  switch (ncx::register_class(key.type)) {
    case ncx::RegisterClass::kF32:
      return encode_floats(registers, n, key, high);
    case ncx::RegisterClass::kI32:
      encode_words<int32_t>(registers, n, key.descending, high, low);
      break;
    case ncx::RegisterClass::kU32:
      encode_words<uint32_t>(registers, n, key.descending, high, low);
      break;
    case ncx::RegisterClass::kI64:
      encode_words<int64_t>(registers, n, key.descending, high, low);
      break;
    case ncx::RegisterClass::kU64:
      encode_words<uint64_t>(registers, n, key.descending, high, low);
      break;
  }
  return true;
}

}  // namespace onrt
