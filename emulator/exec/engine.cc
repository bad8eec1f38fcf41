// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/engine.h"

#include <algorithm>
#include <cstring>

#include "emulator/exec/executor.h"
#include "emulator/isa/encoding.h"
#include "emulator/isa/scalar_value.h"
#include "emulator/isa/views.h"
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
    loaded->find_alignments();
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
    Result<uint64_t> ns =
        is_aligned(binding) ? run_block(0, context) : run_on_copies(binding, context);
    if (ns.ok() && stop.seen()) {  // by the last instruction
      return stop.status();
    }
    return ns;
  }

 private:
  // Elements are read and written as such, so tensors must be aligned to the widest type with which
  // the program looks at them. A client may bind any slice of a tensor; those few run on copies.
  void find_alignments() {
    slot_alignment_.reserve(program_.io.size());
    for (const ncx::IoSlot& slot : program_.io) {
      slot_alignment_.push_back(dtype_bytes(slot.dtype));
    }
    for (const ncx::Block& block : program_.blocks) {
      for (const ncx::Instruction& instruction : block.instructions) {
        ncx::for_each_view(instruction.payload, [&](const ncx::View& view) {
          if (view.space == ncx::Space::kIo) {
            size_t& alignment = slot_alignment_[view.slot];
            alignment = std::max<size_t>(alignment, dtype_bytes(view.dtype));
          }
        });
      }
    }
  }

  bool is_aligned(const EngineBinding& binding) const {
    for (size_t i = 0; i < program_.io.size(); ++i) {
      if (reinterpret_cast<uintptr_t>(binding.io[i]) % slot_alignment_[i] != 0) {
        return false;
      }
    }
    return true;
  }

  Result<uint64_t> run_on_copies(const EngineBinding& binding, ExecContext& context) const {
    struct Copied {
      std::byte* original;
      uint64_t bytes;
      std::vector<uint64_t> words;
    };
    std::vector<std::byte*> io(binding.io.begin(), binding.io.end());
    std::vector<Copied> copies;
    copies.reserve(io.size());
    for (size_t i = 0; i < program_.io.size(); ++i) {
      const uint64_t bytes = program_.io[i].bytes;
      if (reinterpret_cast<uintptr_t>(io[i]) % slot_alignment_[i] == 0) {
        continue;
      }
      // An input and an output in one buffer stay in one buffer.
      const auto same = std::ranges::find_if(
          copies, [&](const Copied& c) { return c.original == io[i] && c.bytes == bytes; });
      if (same != copies.end()) {
        io[i] = reinterpret_cast<std::byte*>(same->words.data());
        continue;
      }
      Copied& copy = copies.emplace_back(Copied{io[i], bytes, {}});
      copy.words.resize((bytes + 7) / 8);
      std::memcpy(copy.words.data(), io[i], bytes);
      io[i] = reinterpret_cast<std::byte*>(copy.words.data());
    }
    context.io = io;
    ONRT_ASSIGN_OR_RETURN(const uint64_t ns, run_block(0, context));
    for (const Copied& copy : copies) {
      std::memcpy(copy.original, copy.words.data(), copy.bytes);
    }
    return ns;
  }

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
    if (reinterpret_cast<uintptr_t>(binding.scratch) % 8 != 0 ||
        reinterpret_cast<uintptr_t>(binding.constants) % 8 != 0) {
      return Status(NRT_EXEC_BAD_INPUT, "scratch or constants are not aligned to 8 bytes");
    }
    return ok_status();
  }

  // Device time of the run.
  Result<uint64_t> run_block(uint32_t block, const ExecContext& context) const {
    uint64_t ns = block_ns(block);
    for (const Step& step : blocks_[block]) {
      if (context.stop->raised_between()) {
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
    ExecContext turn = context;
    for (;;) {
      // HLO rng draws anew in every turn: a step of the numbers of an LCG of full period.
      turn.sequence = turn.sequence * 6364136223846793005U + 1442695040888963407U;
      ONRT_ASSIGN_OR_RETURN(const uint64_t condition, run_block(op.condition, turn));
      total += condition;
      if (ncx::load_boxed(Dtype::kPred, context.at(op.predicate)) == 0) {
        return total;
      }
      ONRT_ASSIGN_OR_RETURN(const uint64_t body, run_block(op.body, turn));
      total += body;
      if (context.stop->raised_between()) {  // blocks may be empty
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
  std::vector<size_t> slot_alignment_;
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
