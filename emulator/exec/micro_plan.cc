// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/micro_plan.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "emulator/exec/executor.h"
#include "emulator/exec/micro_fusion.h"
#include "emulator/isa/scalar_value.h"
#include "runtime/base/mutex.h"

namespace onrt {
namespace {

using ncx::MicroOp;
using ncx::MicroProgram;
using ncx::register_class;
using ncx::RegisterClass;
using ncx::ScalarOp;

constexpr int kNever = -1;
constexpr int kAlways = 1 << 30;

size_t index_of(Dtype dtype) { return static_cast<size_t>(dtype); }
size_t index_of(RegisterClass reg) { return static_cast<size_t>(reg); }

// Every value of `from` is the same register as a value of `to`.
bool conversion_is_free(Dtype from, Dtype to) {
  if (from == to) {
    return true;
  }
  if (register_class(from) != register_class(to)) {
    return false;
  }
  if (is_floating(from)) {
    return to == Dtype::kF32 || to == Dtype::kF64;
  }
  return to != Dtype::kPred && dtype_bytes(from) <= dtype_bytes(to);
}

// Results that are values of the type whenever the operands are.
bool needs_settling(ScalarOp op, Dtype type) {
  switch (op) {
    case ScalarOp::kMaximum:
    case ScalarOp::kMinimum:
    case ScalarOp::kClamp:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
      return false;
    case ScalarOp::kAbs:
    case ScalarOp::kNegate:
    case ScalarOp::kSign:
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kRoundNearestEven:
    case ScalarOp::kRoundNearestAfz:
      return !is_floating(type);
    default:
      return true;
  }
}

int cost_of(ScalarOp op) {
  switch (op) {
    case ScalarOp::kConstant:
      return 0;
    case ScalarOp::kExp:
    case ScalarOp::kLog:
    case ScalarOp::kLogistic:
    case ScalarOp::kTanh:
    case ScalarOp::kErf:
    case ScalarOp::kDivide:
    case ScalarOp::kSqrt:
      return 8;
    case ScalarOp::kExpm1:
    case ScalarOp::kLog1p:
    case ScalarOp::kRsqrt:
    case ScalarOp::kCbrt:
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTan:
    case ScalarOp::kAtan2:
    case ScalarOp::kPower:
    case ScalarOp::kRemainder:
    case ScalarOp::kAcos:
    case ScalarOp::kAcosh:
    case ScalarOp::kAsin:
    case ScalarOp::kAsinh:
    case ScalarOp::kAtan:
    case ScalarOp::kAtanh:
    case ScalarOp::kCosh:
    case ScalarOp::kSinh:
      return 24;
    default:
      return 1;
  }
}

bool depends_on_width(ScalarOp op) {
  switch (op) {
    case ScalarOp::kNot:
    case ScalarOp::kPopulationCount:
    case ScalarOp::kCountLeadingZeros:
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRightArithmetic:
    case ScalarOp::kShiftRightLogical:
    case ScalarOp::kMulhi:
      return true;
    default:
      return false;
  }
}

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

// Blocks of the constants of all programs, made once. Programs with many constants of their own
// must do without when the shelf is full. Thread-safe.
class ConstantShelf {
 public:
  std::shared_ptr<const void> find(OpKernel fill, uint32_t width, uint64_t value)
      ONRT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const std::pair<uint32_t, uint64_t> key(width, value);
    const auto found = blocks_.find(key);
    if (found != blocks_.end() || blocks_.size() >= kMost) {
      return found == blocks_.end() ? nullptr : found->second;
    }
    std::shared_ptr<void> block(std::aligned_alloc(64, kBufferStride), FreeMemory());
    if (block != nullptr) {
      fill(block.get(), nullptr, nullptr, nullptr, static_cast<size_t>(kBlock), value);
      blocks_[key] = block;
    }
    return block;
  }

 private:
  static constexpr size_t kMost = 256;  // 2 MiB
  Mutex mutex_;
  std::map<std::pair<uint32_t, uint64_t>, std::shared_ptr<const void>> blocks_
      ONRT_GUARDED_BY(mutex_);
};

std::shared_ptr<const void> constant_block(OpKernel fill, uint32_t width, uint64_t value) {
  static ConstantShelf shelf;
  return shelf.find(fill, width, value);
}

class Planner {
 public:
  Planner(const MicroProgram& program, const MicroRequest& request, const KernelTable& kernels)
      : program_(program), request_(request), kernels_(kernels) {}

  MicroPlan run() {
    const size_t inputs = request_.input_types.size();
    root_.resize(inputs + program_.ops.size());
    for (size_t r = 0; r < root_.size(); ++r) {
      root_[r] = r < inputs || !is_alias(program_.ops[r - inputs])
                     ? static_cast<uint16_t>(r)
                     : root_[program_.ops[r - inputs].operands[0]];
    }
    fusion_ = fuse_micro(program_, request_.input_types, root_, kernels_);
    find_last_uses();
    choose_external_results();
    location_.assign(root_.size(), 0);
    for (size_t i = 0; i < inputs; ++i) {
      location_[i] = request_.input_external[i] ? new_location(-1) : new_buffer();
      plan_.inputs.push_back(location_[i]);
    }
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const auto reg = static_cast<uint16_t>(inputs + i);
      if (root_[reg] == reg && last_use_[reg] != kNever) {
        emit(i, reg);
        plan_.cost += cost_of(program_.ops[i].op);
      }
    }
    for (const uint16_t result : program_.results) {
      plan_.results.push_back(location_[root_[result]]);
    }
    return std::move(plan_);
  }

 private:
  Dtype type(uint16_t reg) const { return ncx::register_type(program_, request_.input_types, reg); }

  // Registers that op i reads, or that the ops it absorbed read.
  std::span<const uint16_t> operands_of(size_t i) const {
    const MicroOp& op = program_.ops[i];
    const FusedStep& fused = fusion_.steps[i];
    return fused.kernel != nullptr
               ? std::span(fused.operands).first(static_cast<size_t>(fused.arity))
               : std::span<const uint16_t>(op.operands)
                     .first(static_cast<size_t>(ncx::scalar_op_info(op.op).arity));
  }

  bool is_false(uint16_t reg) const {
    const size_t inputs = request_.input_types.size();
    return reg >= inputs && program_.ops[reg - inputs].op == ScalarOp::kConstant &&
           program_.ops[reg - inputs].type == Dtype::kPred &&
           program_.ops[reg - inputs].immediate == 0;
  }

  bool is_alias(const MicroOp& op) const {
    if (op.op == ScalarOp::kCompareNe && type(op.operands[0]) == Dtype::kPred) {
      return is_false(op.operands[1]);  // registers of pred are 0 or 1
    }
    if (op.op == ScalarOp::kConvert) {
      return conversion_is_free(type(op.operands[0]), op.type);
    }
    return op.op == ScalarOp::kBitcastConvert && register_is_memory(type(op.operands[0])) &&
           register_is_memory(op.type);
  }

  void find_last_uses() {
    last_use_.assign(root_.size(), kNever);
    for (const uint16_t result : program_.results) {
      last_use_[root_[result]] = kAlways;
    }
    // Backwards, so that operands of unused ops stay unused.
    const size_t inputs = request_.input_types.size();
    for (size_t i = program_.ops.size(); i-- > 0;) {
      const size_t reg = inputs + i;
      if (root_[reg] != reg || last_use_[reg] == kNever) {
        continue;
      }
      for (const uint16_t operand : operands_of(i)) {
        int& last = last_use_[root_[operand]];
        last = std::max(last, static_cast<int>(i));
      }
    }
  }

  // A result may be written to its memory by the op that makes it, if nothing reads an input in
  // place afterwards: the output may be the same memory as that input.
  void choose_external_results() {
    plan_.result_external.assign(program_.results.size(), false);
    external_result_.assign(root_.size(), -1);
    const size_t inputs = request_.input_types.size();
    int last_read = -1;
    for (size_t i = 0; i < inputs; ++i) {
      if (request_.input_external[i]) {
        last_read = std::max(last_read, last_use_[i]);
      }
    }
    for (size_t i = 0; i < program_.results.size(); ++i) {
      const uint16_t reg = root_[program_.results[i]];
      if (request_.result_external[i] && reg >= inputs && external_result_[reg] < 0 &&
          static_cast<int>(reg - inputs) >= last_read &&
          program_.ops[reg - inputs].op != ScalarOp::kConstant &&
          program_.ops[reg - inputs].op != ScalarOp::kIota) {
        external_result_[reg] = static_cast<int>(i);
        plan_.result_external[i] = true;
      }
    }
  }

  uint16_t new_location(int buffer) {
    plan_.buffer.push_back(buffer);
    return static_cast<uint16_t>(plan_.buffer.size() - 1);
  }
  uint16_t new_buffer() {
    if (!free_.empty()) {
      const int buffer = free_.back();
      free_.pop_back();
      return new_location(buffer);
    }
    return new_location(plan_.buffers++);
  }

  // Buffers whose values are read for the last time by op i.
  void release(size_t i) {
    const std::span<const uint16_t> operands = operands_of(i);
    for (size_t k = 0; k < operands.size(); ++k) {
      const uint16_t reg = root_[operands[k]];
      const bool seen =
          (k > 0 && root_[operands[0]] == reg) || (k > 1 && root_[operands[1]] == reg);
      if (!seen && last_use_[reg] == static_cast<int>(i) && reusable(reg)) {
        free_.push_back(plan_.buffer[location_[reg]]);
      }
    }
  }
  bool reusable(uint16_t reg) const {
    const size_t inputs = request_.input_types.size();
    if (plan_.buffer[location_[reg]] < 0) {
      return false;
    }
    return reg < inputs ? !request_.input_constant[reg]
                        : program_.ops[reg - inputs].op != ScalarOp::kConstant;
  }

  void emit(size_t i, uint16_t reg) {
    const MicroOp& op = program_.ops[i];
    MicroStep step;
    const std::span<const uint16_t> operands = operands_of(i);
    const auto arity = static_cast<int>(operands.size());
    uint16_t* places[] = {&step.a, &step.b, &step.c};
    for (size_t k = 0; k < operands.size(); ++k) {
      *places[k] = location_[root_[operands[k]]];
    }
    // The result may take an operand's buffer if elements are of the same width. Bitcasts go
    // through a third buffer, so their operand's must not be the result's.
    const bool through_memory = op.op == ScalarOp::kBitcastConvert;
    const bool early = !through_memory && same_width(op, operands);
    if (early) {
      release(i);
    }
    // Constants and iotas are filled before the first step, so their buffers are new ones.
    const bool leaf = arity == 0;
    location_[reg] = external_result_[reg] >= 0 ? new_location(-1)
                     : leaf                     ? new_location(plan_.buffers++)
                                                : new_buffer();
    step.out = location_[reg];
    if (op.op == ScalarOp::kConstant) {
      const RegisterClass type_class = register_class(op.type);
      const OpKernel fill = kernels_.fill[index_of(type_class)];
      const uint64_t value = ncx::box_bits(op.type, op.immediate);
      plan_.fills.push_back(
          {step.out, fill, value, constant_block(fill, register_bytes(type_class), value)});
      return;
    }
    if (op.op == ScalarOp::kIota) {
      plan_.iotas.push_back({step.out, op.immediate,
                             kernels_.convert[index_of(RegisterClass::kI64)][index_of(op.type)]});
      return;
    }
    if (const FusedStep& fused = fusion_.steps[i]; fused.kernel != nullptr) {
      step.op = fused.kernel;
      step.immediate = fused.immediate;
      plan_.steps.push_back(step);
    } else if (through_memory) {
      emit_bitcast(step, type(op.operands[0]), op.type);
    } else {
      emit_op(op, step, arity);
    }
    if (!early) {
      release(i);
    }
  }

  bool same_width(const MicroOp& op, std::span<const uint16_t> operands) const {
    for (const uint16_t operand : operands) {
      if (register_bytes(register_class(type(operand))) !=
          register_bytes(register_class(op.type))) {
        return false;
      }
    }
    return true;
  }

  void emit_op(const MicroOp& op, MicroStep step, int arity) {
    const Dtype operand = type(op.operands[arity - 1]);
    const RegisterClass reg = register_class(operand);
    step.immediate = depends_on_width(op.op)
                         ? (operand == Dtype::kPred ? 1 : dtype_bytes(operand) * 8)
                         : op.immediate;
    if (op.op == ScalarOp::kConvert) {
      step.op = kernels_.convert[index_of(reg)][index_of(op.type)];
    } else if (op.op == ScalarOp::kSelect) {
      step.op = register_bytes(reg) == 8 ? kernels_.select64 : kernels_.select32;
    } else {
      step.op = kernels_.op[static_cast<size_t>(op.op)][index_of(reg)];
    }
    plan_.steps.push_back(step);
    const OpKernel settle = kernels_.settle[index_of(op.type)];
    const ncx::ResultRule rule = ncx::scalar_op_info(op.op).result;
    if (settle != nullptr && rule == ncx::ResultRule::kSame && needs_settling(op.op, op.type)) {
      plan_.steps.push_back({settle, nullptr, step.out, step.out, step.out, step.out, 0});
    }
  }

  void emit_bitcast(const MicroStep& step, Dtype from, Dtype to) {
    const uint16_t memory = new_buffer();
    plan_.steps.push_back({nullptr, kernels_.store[index_of(from)], memory, step.a, 0, 0, 0});
    plan_.steps.push_back({nullptr, kernels_.load[index_of(to)], step.out, memory, 0, 0, 0});
    free_.push_back(plan_.buffer[memory]);
  }

  const MicroProgram& program_;
  const MicroRequest& request_;
  const KernelTable& kernels_;
  MicroPlan plan_;
  MicroFusion fusion_;
  std::vector<uint16_t> root_;
  std::vector<int> last_use_;         // op index; kNever, kAlways
  std::vector<int> external_result_;  // result that a register is written to directly; -1
  std::vector<uint16_t> location_;
  std::vector<int> free_;
};

}  // namespace

Status no_buffer_memory() {
  return Status(NRT_RESOURCE, "no host memory for the buffers of an instruction");
}

bool register_is_memory(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
    case Dtype::kS32:
    case Dtype::kU32:
    case Dtype::kS64:
    case Dtype::kU64:
      return true;
    default:
      return false;
  }
}

MicroPlan plan_micro(const MicroProgram& program, const MicroRequest& request,
                     const KernelTable& kernels) {
  return Planner(program, request, kernels).run();
}

std::byte* thread_arena(size_t bytes) {
  thread_local std::unique_ptr<void, FreeMemory> memory;
  thread_local size_t size = 0;
  if (size < bytes) {
    const size_t rounded = (bytes + 65535) / 65536 * 65536;
    memory.reset(std::aligned_alloc(64, rounded));
    size = memory == nullptr ? 0 : rounded;
  }
  return static_cast<std::byte*>(memory.get());
}

}  // namespace onrt
