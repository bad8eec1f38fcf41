// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/block_io.h"
#include "emulator/exec/executor.h"
#include "emulator/exec/micro_plan.h"

namespace onrt {
namespace {

size_t index_of(ncx::RegisterClass reg) { return static_cast<size_t>(reg); }

// Views of the nest: inputs, then one pseudo-view per iota, then outputs (the last decides the
// order of the loops).
LoopNest nest_of(const ncx::Eltwise& op, std::span<const MicroIota> iotas) {
  std::vector<Strides> strides;
  for (const ncx::View& view : op.inputs) {
    strides.push_back(view.strides);
  }
  for (const MicroIota& iota : iotas) {
    Strides unit{};
    unit[iota.dimension] = 1;
    strides.push_back(unit);
  }
  for (const ncx::View& view : op.outputs) {
    strides.push_back(view.strides);
  }
  return make_nest({op.domain.dims.data(), op.domain.rank}, strides, LoopOrder::kFree);
}

class EltwiseExecutor final : public Executor {
 public:
  EltwiseExecutor(const ncx::Eltwise& op, const ExecutorOptions& options)
      : kernels_(*options.kernels),
        inputs_(op.inputs),
        outputs_(op.outputs),
        iota_dims_(iotas_of(op)),
        walk_(nest_of(op, iota_dims_), op.inputs.size()) {
    plan(op);
  }

  Status execute(const ExecContext& context) const override {
    if (walk_.nest().elements == 0) {
      return ok_status();
    }
    return for_units(context, walk_.units(), work_per_unit_,
                     [&](int64_t first, int64_t last) { return run(context, first, last); });
  }

 private:
  // The nest needs the iotas and the plan of the micro-program needs the nest, so the iotas are
  // listed first. Only live ones matter, but a dead one does no harm.
  static std::vector<MicroIota> iotas_of(const ncx::Eltwise& op) {
    std::vector<MicroIota> iotas;
    for (const ncx::MicroOp& micro : op.program.ops) {
      if (micro.op == ncx::ScalarOp::kIota) {
        iotas.push_back({0, micro.immediate, nullptr});
      }
    }
    return iotas;
  }

  size_t iota_view(const MicroIota& iota) const {
    for (size_t i = 0; i < iota_dims_.size(); ++i) {
      if (iota_dims_[i].dimension == iota.dimension) {
        return inputs_.size() + i;
      }
    }
    return 0;
  }
  size_t output_view(size_t output) const { return inputs_.size() + iota_dims_.size() + output; }

  void plan(const ncx::Eltwise& op) {
    std::vector<Dtype> types;
    // std::vector<bool> has no data(); these are read through spans.
    bool external[ncx::kMaxMicroInputs] = {};
    bool constant[ncx::kMaxMicroInputs] = {};
    bool result[ncx::kMaxOutputs] = {};
    int64_t bytes = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Dtype dtype = inputs_[i].dtype;
      types.push_back(dtype);
      constant[i] = walk_.constant(i) && walk_.nest().elements > 1;
      external[i] = !constant[i] && walk_.contiguous(i) && register_is_memory(dtype);
      access_.push_back(constant[i]   ? Access::kScalar
                        : external[i] ? Access::kDirect
                                      : Access::kMoved);
      bytes += constant[i] ? 0 : dtype_bytes(dtype);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      result[i] = walk_.contiguous(output_view(i)) && register_is_memory(outputs_[i].dtype);
      bytes += dtype_bytes(outputs_[i].dtype);
    }
    plan_ = plan_micro(
        op.program,
        {types, {external, inputs_.size()}, {constant, inputs_.size()}, {result, outputs_.size()}},
        kernels_);
    const int64_t block = std::min(kBlock, walk_.nest().elements);
    work_per_unit_ = block * (bytes + plan_.cost);
  }

  bool run(const ExecContext& context, int64_t first, int64_t last) const {
    std::byte* arena = thread_arena(static_cast<size_t>(plan_.buffers + 1) * kBufferStride);
    if (arena == nullptr) {
      return false;
    }
    void* pointers[kMaxLocations];
    place_buffers(plan_, arena, pointers);
    auto* positions =
        reinterpret_cast<int64_t*>(arena + static_cast<size_t>(plan_.buffers) * kBufferStride);
    std::byte* bases[ncx::kMaxMicroInputs + ncx::kMaxOutputs];
    const auto block = static_cast<size_t>(std::min(kBlock, walk_.nest().elements));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      bases[i] = context.at(inputs_[i]);
      if (access_[i] == Access::kScalar) {
        const Dtype dtype = inputs_[i].dtype;
        kernels_.fill[index_of(ncx::register_class(dtype))](
            pointers[plan_.inputs[i]], nullptr, nullptr, nullptr, block,
            load_immediate(kernels_, dtype, bases[i]));
      }
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      bases[inputs_.size() + i] = context.at(outputs_[i]);
    }
    place_constants(plan_, pointers, block);
    BlockCursor cursor(walk_);
    for (int64_t unit = first; unit < last; ++unit) {
      cursor.seek(unit);
      run_block(cursor, pointers, bases, positions);
    }
    return true;
  }

  void run_block(const BlockCursor& cursor, void** pointers, std::byte* const* bases,
                 int64_t* positions) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Dtype dtype = inputs_[i].dtype;
      if (access_[i] == Access::kDirect) {
        pointers[plan_.inputs[i]] = cursor.address(i, bases[i], dtype_bytes(dtype));
      } else if (access_[i] == Access::kMoved) {
        cursor.load(i, bases[i], kernels_, dtype, pointers[plan_.inputs[i]]);
      }
    }
    for (const MicroIota& iota : plan_.iotas) {
      cursor.count(iota_view(iota), positions);
      iota.convert(pointers[iota.location], positions, nullptr, nullptr, cursor.size(), 0);
    }
    std::byte* const* out = bases + inputs_.size();
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (plan_.result_external[i]) {
        pointers[plan_.results[i]] =
            cursor.address(output_view(i), out[i], dtype_bytes(outputs_[i].dtype));
      }
    }
    run_steps(plan_, pointers, cursor.size());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!plan_.result_external[i]) {
        cursor.store(output_view(i), out[i], kernels_, outputs_[i].dtype,
                     pointers[plan_.results[i]]);
      }
    }
  }

  static constexpr size_t kMaxLocations =
      ncx::kMaxMicroInputs + 2 * ncx::kMaxMicroOps;  // a bitcast has two

  const KernelTable& kernels_;
  std::vector<ncx::View> inputs_;
  std::vector<ncx::View> outputs_;
  std::vector<MicroIota> iota_dims_;
  BlockWalk walk_;
  std::vector<Access> access_;
  MicroPlan plan_;
  int64_t work_per_unit_ = 0;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::Eltwise& op, const ExecutorOptions& options) {
  return std::make_unique<EltwiseExecutor>(op, options);
}

}  // namespace onrt
