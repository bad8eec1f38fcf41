// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/engine.h"

#include "emulator/exec/executor.h"
#include "emulator/isa/encoding.h"
#include "emulator/isa/scalar_value.h"
#include "runtime/base/format.h"

namespace onrt {
namespace {

// One instruction in the order of execution.
struct Step {
  std::unique_ptr<Executor> executor;  // null: control flow
  const ncx::Payload* control = nullptr;
  uint32_t instruction = 0;
  uint64_t static_ns = 0;  // nested blocks' share of the block's device time
};

class LoadedProgram final : public EngineProgram {
 public:
  static Result<std::unique_ptr<EngineProgram>> make(ncx::Program program, SimdLevel simd) {
    auto loaded = std::make_unique<LoadedProgram>();
    loaded->program_ = std::move(program);
    ONRT_ASSIGN_OR_RETURN(loaded->timeline_, schedule(loaded->program_));
    loaded->resolve({simd, &kernel_table(simd)});
    return std::unique_ptr<EngineProgram>(std::move(loaded));
  }

  const ncx::Program& program() const override { return program_; }
  const Timeline& timeline() const override { return timeline_; }

  Result<uint64_t> execute(const EngineBinding& binding, const EngineRun& run) const override {
    ONRT_RETURN_IF_ERROR(check(binding));
    const StopSignal stop(run.deadline, run.abort);
    ExecContext context;
    context.io = binding.io;
    context.constants = binding.constants;
    context.scratch = binding.scratch;
    context.pool = run.pool;
    context.stop = &stop;
    context.sequence = run.sequence;
    return run_block(0, context);
  }

 private:
  void resolve(const ExecutorOptions& options) {
    blocks_.resize(program_.blocks.size());
    for (size_t b = 0; b < program_.blocks.size(); ++b) {
      blocks_[b].reserve(timeline_.blocks[b].entries.size());
      for (const TimelineEntry& entry : timeline_.blocks[b].entries) {
        const ncx::Payload& payload = program_.blocks[b].instructions[entry.instruction].payload;
        Step step;
        step.instruction = entry.instruction;
        std::visit(
            [&](const auto& op) {
              if constexpr (requires { make_executor(op, options); }) {
                step.executor = make_executor(op, options);
              } else {
                step.control = &payload;
                step.static_ns = static_ns(op);
              }
            },
            payload);
        blocks_[b].push_back(std::move(step));
      }
    }
  }

  uint64_t block_ns(uint32_t block) const { return timeline_.blocks[block].device_ns; }
  uint64_t static_ns(const ncx::Loop& op) const {
    return block_ns(op.condition) + block_ns(op.body);
  }
  uint64_t static_ns(const ncx::If& op) const {
    uint64_t ns = 0;
    for (const uint32_t block : op.branches) {
      ns = std::max(ns, block_ns(block));
    }
    return ns;
  }
  uint64_t static_ns(const ncx::Call& op) const { return block_ns(op.block); }

  Status check(const EngineBinding& binding) const {
    if (binding.io.size() < program_.io.size() || binding.io_bytes.size() < program_.io.size()) {
      return Status(NRT_EXEC_BAD_INPUT, format("{} tensors bound where the program has {} io slots",
                                               binding.io.size(), program_.io.size()));
    }
    for (size_t i = 0; i < program_.io.size(); ++i) {
      const ncx::IoSlot& slot = program_.io[i];
      if (slot.bytes > 0 && (binding.io[i] == nullptr || binding.io_bytes[i] < slot.bytes)) {
        return Status(NRT_EXEC_BAD_INPUT,
                      format("io slot {} ({}): {} bytes expected, {} bound", i,
                             slot.usage == ncx::SlotUsage::kInput ? "input" : "output", slot.bytes,
                             binding.io[i] == nullptr ? 0 : binding.io_bytes[i]));
      }
    }
    if (program_.scratch_bytes > 0 &&
        (binding.scratch == nullptr || binding.scratch_bytes < program_.scratch_bytes)) {
      return Status(NRT_EXEC_BAD_INPUT, format("{} bytes of scratch expected, {} given",
                                               program_.scratch_bytes, binding.scratch_bytes));
    }
    if (program_.constants_bytes > 0 && binding.constants == nullptr) {
      return Status(NRT_EXEC_BAD_INPUT, "the program has constants and none are bound");
    }
    return ok_status();
  }

  // Device time of the run.
  Result<uint64_t> run_block(uint32_t block, const ExecContext& context) const {
    uint64_t ns = block_ns(block);
    for (const Step& step : blocks_[block]) {
      if (context.stop->raised()) {
        return context.stop->status();
      }
      if (step.executor != nullptr) {
        Status status = step.executor->execute(context);
        if (!status.ok()) {
          return std::move(status).annotate(describe(block, step));
        }
        continue;
      }
      ONRT_ASSIGN_OR_RETURN(
          const uint64_t nested,
          std::visit([&](const auto& op) { return run_control(op, context); }, *step.control));
      ns += nested - step.static_ns;
    }
    return ns;
  }

  Result<uint64_t> run_control(const ncx::Loop& op, const ExecContext& context) const {
    uint64_t total = 0;
    for (;;) {
      ONRT_ASSIGN_OR_RETURN(const uint64_t condition, run_block(op.condition, context));
      total += condition;
      if (ncx::load_boxed(Dtype::kPred, context.at(op.predicate)) == 0) {
        return total;
      }
      ONRT_ASSIGN_OR_RETURN(const uint64_t body, run_block(op.body, context));
      total += body;
      if (context.stop->raised()) {  // blocks may be empty
        return context.stop->status();
      }
    }
  }

  Result<uint64_t> run_control(const ncx::If& op, const ExecContext& context) const {
    const ncx::Boxed value = ncx::load_boxed(op.selector.dtype, context.at(op.selector));
    size_t branch = op.branches.size() - 1;
    if (op.selector.dtype == Dtype::kPred) {
      branch = value != 0 ? 0 : 1;
    } else if (value < op.branches.size()) {  // negative values are huge here: the last branch
      branch = static_cast<size_t>(value);
    }
    return run_block(op.branches[branch], context);
  }

  Result<uint64_t> run_control(const ncx::Call& op, const ExecContext& context) const {
    return run_block(op.block, context);
  }

  template <class Op>
  Result<uint64_t> run_control(const Op&, const ExecContext&) const {
    return Status(NRT_FAILURE, "internal error: an instruction without executor");
  }

  template <class Op>
  uint64_t static_ns(const Op&) const {
    return 0;
  }

  std::string describe(uint32_t block, const Step& step) const {
    const uint32_t name = program_.blocks[block].instructions[step.instruction].name;
    return format("block {} instruction {}{}", block, step.instruction,
                  name < program_.names.size() ? " (" + program_.names[name] + ")" : "");
  }

  ncx::Program program_;
  Timeline timeline_;
  std::vector<std::vector<Step>> blocks_;
};

}  // namespace

Result<std::unique_ptr<EngineProgram>> EngineProgram::load(std::span<const std::byte> code,
                                                           std::span<const std::byte> constants,
                                                           SimdLevel simd) {
  ONRT_ASSIGN_OR_RETURN(ncx::Program program, ncx::decode(code));
  ONRT_RETURN_IF_ERROR(ncx::check_constants(code, constants));
  return LoadedProgram::make(std::move(program), simd);
}

}  // namespace onrt
