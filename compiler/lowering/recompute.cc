// SPDX-License-Identifier: Apache-2.0
// Arrays that kernels make anew instead of keeping: the result of a few cheap operations on arrays
// that are there anyway (x - mean, weight * scale), or what a single kernel reads element by
// element. Memory and its traffic shrink; no result changes, since every operation rounds to its
// type wherever it is computed.
#include <algorithm>

#include "compiler/lowering/lowerer.h"

namespace onrt::lowering {
namespace {

constexpr int64_t kSmallShare = 8;    // an input of at most this share costs nothing to keep
constexpr size_t kMostRepeated = 3;   // operations computed by several kernels
constexpr size_t kMostMoved = 16;     // operations computed by one other kernel
constexpr size_t kMostBigInputs = 3;  // of these
constexpr size_t kMostOps = ncx::kMaxMicroOps - 4;
constexpr size_t kMostInputs = ncx::kMaxMicroInputs - 3;

bool is_cheap(ncx::ScalarOp op) {
  switch (op) {
    case ncx::ScalarOp::kAdd:
    case ncx::ScalarOp::kSubtract:
    case ncx::ScalarOp::kMultiply:
    case ncx::ScalarOp::kNegate:
    case ncx::ScalarOp::kAbs:
    case ncx::ScalarOp::kMaximum:
    case ncx::ScalarOp::kMinimum:
    case ncx::ScalarOp::kAnd:
    case ncx::ScalarOp::kOr:
    case ncx::ScalarOp::kXor:
    case ncx::ScalarOp::kCompareEq:
    case ncx::ScalarOp::kCompareNe:
    case ncx::ScalarOp::kCompareLt:
    case ncx::ScalarOp::kCompareLe:
    case ncx::ScalarOp::kCompareGt:
    case ncx::ScalarOp::kCompareGe:
    case ncx::ScalarOp::kSelect:
    case ncx::ScalarOp::kConvert:
      return true;
    default:
      return false;
  }
}

bool is_leaf(ncx::ScalarOp op) {
  return op == ncx::ScalarOp::kConstant || op == ncx::ScalarOp::kIota;
}

// Bytes of the different elements of a window.
int64_t own_bytes(const Window& window) {
  int64_t count = dtype_bytes(window.dtype);
  for (size_t d = 0; d < window.dims.size(); ++d) {
    count *= window.strides[d] == 0 ? 1 : window.dims[d];
  }
  return count;
}

// How dense `array` was permuted to become `window`; false if it was not.
bool order_of(const Window& array, const Window& window, Dims& order) {
  if (window.offset != array.offset || window.dtype != array.dtype ||
      window.dims.size() != array.dims.size()) {
    return false;
  }
  uint64_t used = 0;
  for (size_t i = 0; i < window.dims.size(); ++i) {
    size_t d = 0;
    while (d < array.dims.size() && ((used >> d & 1) != 0 || array.dims[d] != window.dims[i] ||
                                     array.strides[d] != window.strides[i])) {
      ++d;
    }
    if (d == array.dims.size()) {
      return false;
    }
    used |= uint64_t{1} << d;
    order.push_back(static_cast<int64_t>(d));
  }
  return true;
}

// What an output is computed from.
struct Expression {
  std::vector<uint16_t> ops;     // ascending
  std::vector<uint16_t> inputs;  // ascending
  size_t cost = 0;
  bool cheap = true;
};

Expression expression_of(const Micro& micro, Reg result) {
  Needed needed(micro);
  needed.mark(result);
  needed.close(micro);
  Expression made;
  for (size_t i = 0; i < needed.ops.size(); ++i) {
    if (needed.ops[i]) {
      made.ops.push_back(static_cast<uint16_t>(i));
      const ncx::ScalarOp op = micro.ops[i].op;
      made.cost += is_leaf(op) ? 0 : 1;
      made.cheap = made.cheap && (is_leaf(op) || is_cheap(op));
    }
  }
  for (size_t i = 0; i < needed.inputs.size(); ++i) {
    if (needed.inputs[i]) {
      made.inputs.push_back(static_cast<uint16_t>(i));
    }
  }
  return made;
}

// Equal operations become one.
void share(Micro& micro) {
  std::vector<uint16_t> first(micro.ops.size());
  const auto rename = [&](Reg& reg) {
    if (reg.list == Reg::List::kOp) {
      reg.index = first[reg.index];
    }
  };
  for (size_t i = 0; i < micro.ops.size(); ++i) {
    Micro::Op& op = micro.ops[i];
    std::ranges::for_each(op.operands, rename);
    size_t j = 0;
    while (j < i &&
           !(micro.ops[j].op == op.op && micro.ops[j].type == op.type &&
             micro.ops[j].operands == op.operands && micro.ops[j].immediate == op.immediate)) {
      ++j;
    }
    first[i] = j < i ? first[j] : static_cast<uint16_t>(i);
  }
  for (Micro::Output& output : micro.outputs) {
    rename(output.reg);
  }
}

// `to` computes input `input` itself, as `from` computed `result`.
void substitute(const Micro& from, Reg result, const Expression& expression, const Dims& order,
                Micro& to, uint16_t input) {
  std::vector<Reg> moved_inputs(from.inputs.size());
  for (const uint16_t i : expression.inputs) {
    moved_inputs[i] = to.add_input(permute(from.inputs[i], order));
  }
  std::vector<uint16_t> moved_ops(from.ops.size());
  const auto moved = [&](Reg reg) {
    switch (reg.list) {
      case Reg::List::kInput:
        return moved_inputs[reg.index];
      case Reg::List::kOp:
        return Reg{Reg::List::kOp, moved_ops[reg.index]};
      default:
        return reg;
    }
  };
  std::vector<Micro::Op> ops;
  for (const uint16_t i : expression.ops) {
    moved_ops[i] = static_cast<uint16_t>(ops.size());
    Micro::Op op = from.ops[i];
    std::ranges::transform(op.operands, op.operands.begin(), moved);
    if (op.op == ncx::ScalarOp::kIota) {
      const auto* at = std::find(order.begin(), order.end(), static_cast<int64_t>(op.immediate));
      op.immediate = static_cast<uint64_t>(at - order.begin());
    }
    ops.push_back(op);
  }
  const Reg made = moved(result);
  const auto shift = static_cast<uint16_t>(ops.size());
  const auto rename = [&](Reg& reg) {
    if (reg == Reg{Reg::List::kInput, input}) {
      reg = made;
    } else if (reg.list == Reg::List::kOp) {
      reg.index = static_cast<uint16_t>(reg.index + shift);
    }
  };
  for (Micro::Op op : to.ops) {
    std::ranges::for_each(op.operands, rename);
    ops.push_back(op);
  }
  for (Micro::Output& output : to.outputs) {
    rename(output.reg);
  }
  to.ops = std::move(ops);
  share(to);
}

class Recomputer {
 public:
  Recomputer(const Flat& flat, Plan& plan, int64_t least)
      : plan_(plan),
        least_(least),
        readers_(plan.buffers.size()),
        writers_(plan.buffers.size()),
        last_use_(plan.buffers.size(), -1),
        shared_(plan.buffers.size(), false) {
    mark_shared(flat);
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      const auto number = static_cast<int32_t>(k);
      const auto add = [&](std::vector<int32_t>& list, BufferId id) {
        if (list.empty() || list.back() != number) {
          list.push_back(number);
        }
        last_use_[static_cast<size_t>(id)] = number;
      };
      for_each_read(plan_.kernels[k], [&](const Window& window) {
        add(readers_[static_cast<size_t>(window.buffer)], window.buffer);
      });
      for_each_write(plan_.kernels[k], [&](const Window& window) {
        add(writers_[static_cast<size_t>(window.buffer)], window.buffer);
      });
    }
  }

  void run() {
    bool changed = false;
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      if (plan_.kernels[k].kind != KernelKind::kEltwise) {
        continue;
      }
      for (size_t o = 0; o < plan_.kernels[k].tail.outputs.size(); ++o) {
        changed = try_output(static_cast<int32_t>(k), o) || changed;
      }
    }
    if (changed) {
      drop_unused(plan_);
    }
  }

 private:
  // A place where the array in hand is read.
  struct Use {
    int32_t kernel;
    Micro* micro;
    uint16_t input;
    Dims order;
  };

  Kernel& kernel(int32_t number) { return plan_.kernels[static_cast<size_t>(number)]; }
  Buffer& buffer(BufferId id) { return plan_.buffers[static_cast<size_t>(id)]; }

  // Parameters and results that may be in the same memory.
  void mark_shared(const Flat& flat) {
    std::vector<bool> slots(flat.parameters().size() + flat.outputs().size(), false);
    auto slot = flat.parameters().size();
    const std::vector<int32_t> aliased = aliased_parameters(flat);
    for (size_t i = 0; i < aliased.size(); ++i) {
      if (flat.type(flat.outputs()[i]).elements == 0) {
        continue;
      }
      if (aliased[i] >= 0) {
        slots[slot] = true;
        slots[static_cast<size_t>(aliased[i])] = true;
      }
      ++slot;
    }
    for (size_t b = 0; b < shared_.size(); ++b) {
      shared_[b] =
          plan_.buffers[b].place == Place::kIo && slots[static_cast<size_t>(plan_.buffers[b].slot)];
    }
  }

  bool try_output(int32_t number, size_t output) {
    const Kernel& producer = kernel(number);
    const Micro::Output made = producer.tail.outputs[output];
    const auto id = static_cast<size_t>(made.window.buffer);
    const Buffer& array = plan_.buffers[id];
    if (array.place != Place::kScratch || array.bytes < least_ || readers_[id].empty() ||
        writers_[id].size() != 1 || made.window.offset != 0 || !is_dense(made.window) ||
        made.window.dims != producer.dims || producer.dims.size() > ncx::kMaxRank ||
        element_count(producer.dims) * dtype_bytes(made.window.dtype) != array.bytes ||
        std::ranges::count(producer.tail.outputs, made.window.buffer,
                           [](const Micro::Output& each) { return each.window.buffer; }) != 1) {
      return false;
    }
    std::vector<Use> uses;
    const Expression expression = expression_of(producer.tail, made.reg);
    if (!find_uses(number, made.window, uses) || !worth(number, array, expression, uses)) {
      return false;
    }
    for (const Use& use : uses) {
      substitute(producer.tail, made.reg, expression, use.order, *use.micro, use.input);
    }
    for (const uint16_t input : expression.inputs) {
      const auto from = static_cast<size_t>(producer.tail.inputs[input].buffer);
      readers_[from].insert(readers_[from].end(), readers_[id].begin(), readers_[id].end());
      last_use_[from] = std::max(last_use_[from], last_use_[id]);
    }
    readers_[id].clear();
    return true;
  }

  // False if a reader can't compute the array itself.
  bool find_uses(int32_t number, const Window& array, std::vector<Use>& uses) {
    for (const int32_t reader : readers_[static_cast<size_t>(array.buffer)]) {
      Kernel& user = kernel(reader);
      const auto found = std::ranges::find(uses, reader, &Use::kernel);
      if (found != uses.end()) {
        continue;  // listed twice
      }
      if (reader <= number || user.block != kernel(number).block ||
          (user.kind != KernelKind::kEltwise && user.kind != KernelKind::kReduce)) {
        return false;
      }
      int reads = 0;
      for_each_read(user,
                    [&](const Window& window) { reads += window.buffer == array.buffer ? 1 : 0; });
      for (Micro* micro : {&user.prologue, &user.tail}) {
        for (size_t i = 0; i < micro->inputs.size(); ++i) {
          if (micro->inputs[i].buffer != array.buffer) {
            continue;
          }
          Use use{reader, micro, static_cast<uint16_t>(i), {}};
          if (!order_of(array, micro->inputs[i], use.order)) {
            return false;
          }
          uses.push_back(std::move(use));
          --reads;
        }
      }
      if (reads != 0) {
        return false;
      }
    }
    return !uses.empty();
  }

  bool worth(int32_t number, const Buffer& array, const Expression& expression,
             const std::vector<Use>& uses) {
    const bool once = uses.size() == 1;
    if (once ? expression.cost > kMostMoved
             : expression.cost > kMostRepeated || !expression.cheap) {
      return false;
    }
    for (const Use& use : uses) {
      if (use.micro->ops.size() + expression.ops.size() > kMostOps ||
          use.micro->inputs.size() + use.micro->heads.size() + expression.inputs.size() >
              kMostInputs) {
        return false;
      }
    }
    const int32_t last = std::ranges::max_element(uses, {}, &Use::kernel)->kernel;
    size_t big = 0;
    for (const uint16_t i : expression.inputs) {
      const Window& input = kernel(number).tail.inputs[i];
      const auto id = static_cast<size_t>(input.buffer);
      const auto& writers = writers_[id];
      const auto next = std::ranges::upper_bound(writers, number);
      if (shared_[id] || (next != writers.end() && *next <= last)) {
        return false;
      }
      const bool small = buffer(input.buffer).bytes <= array.bytes / kSmallShare;
      if (!small && buffer(input.buffer).place == Place::kScratch && last_use_[id] < last) {
        return false;  // it would live longer
      }
      big += own_bytes(input) > array.bytes / kSmallShare ? 1 : 0;
    }
    return big <= (once ? kMostBigInputs : 1);
  }

  Plan& plan_;
  int64_t least_;
  std::vector<std::vector<int32_t>> readers_;  // by buffer: kernels
  std::vector<std::vector<int32_t>> writers_;  // by buffer: kernels, ascending
  std::vector<int32_t> last_use_;              // by buffer: the last kernel of both lists
  std::vector<bool> shared_;                   // by buffer
};

}  // namespace

void recompute(const Flat& flat, Plan& plan, int64_t least) { Recomputer(flat, plan, least).run(); }

}  // namespace onrt::lowering
